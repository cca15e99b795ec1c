-- Makes transactions that write to the same streams wait for each other until they end, for message types that need the
-- order of commits. Sorted, so that two transactions with several streams cannot deadlock.
create or replace function whizbang.lock_streams(p_stream_ids uuid[]) returns void
language plpgsql volatile
as $$
declare
  v_stream_id uuid;
begin
  for v_stream_id in select distinct s.stream_id from unnest(p_stream_ids) as s (stream_id) order by 1 loop
    perform pg_advisory_xact_lock(hashtextextended('whizbang' || v_stream_id::text, 0));
  end loop;
end
$$;
