-- Forgets received ids older than p_days, p_limit at a time, so that no purge holds locks or bloats the log for long.
-- Returns how many were forgotten: call again while it is p_limit.
create or replace function whizbang.purge_message_deduplication(p_days double precision, p_limit integer) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_count integer;
begin
  delete from whizbang.wh_message_deduplication
  where message_id = any (array(
    select d.message_id from whizbang.wh_message_deduplication d
    where d.first_seen_at < clock_timestamp() - p_days * interval '1 day'
    order by d.first_seen_at limit p_limit));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
