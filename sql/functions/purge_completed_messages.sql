-- Deletes processed rows that were kept (retainCompleted) and are older than p_days, p_limit of each table at a time;
-- returns the larger of the two numbers. Served by idx_outbox_processed and idx_inbox_processed.
create or replace function whizbang.purge_completed_messages(p_days double precision, p_limit integer) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_outbox integer;
  v_inbox integer;
begin
  delete from whizbang.wh_outbox where message_id = any (array(
    select o.message_id from whizbang.wh_outbox o
    where o.processed_at < clock_timestamp() - p_days * interval '1 day' order by o.processed_at limit p_limit));
  get diagnostics v_outbox = row_count;
  delete from whizbang.wh_inbox where message_id = any (array(
    select i.message_id from whizbang.wh_inbox i
    where i.processed_at < clock_timestamp() - p_days * interval '1 day' order by i.processed_at limit p_limit));
  get diagnostics v_inbox = row_count;
  return greatest(v_outbox, v_inbox);
end
$$;
