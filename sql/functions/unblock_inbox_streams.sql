-- Brings followers back into the indexes that claims read, when rows of their streams have gone: tops up a stream that
-- has fewer than 32 rows to be claimed to 64. A dispatcher keeps about as many of one stream in hand, so that a stream of
-- a million is neither rewritten at once nor handed back and forth.
create or replace function whizbang.unblock_inbox_streams(p_stream_ids uuid[]) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_unblocked integer := 0;
begin
  -- The index of blocked rows is empty in a healthy system: one probe and out.
  if exists (select 1 from whizbang.wh_inbox where blocked) then
    update whizbang.wh_inbox o
    set blocked = false
    where o.message_id = any (array(
      select f.message_id
      from (select distinct s.stream_id from unnest(p_stream_ids) as s (stream_id) where s.stream_id is not null) s
      -- Most streams have nobody to bring back: one probe each.
      cross join lateral (
        select b.stream_id from whizbang.wh_inbox b
        where b.blocked and b.stream_id = s.stream_id
        order by b.sequence
        limit 1
      ) w
      cross join lateral (
        select count(*) as ahead
        from (select 1 from whizbang.wh_inbox e
              where e.stream_id = w.stream_id and e.processed_at is null and not e.blocked
              order by e.sequence limit 32) a
      ) n
      cross join lateral (
        select b.message_id from whizbang.wh_inbox b
        where n.ahead < 32 and b.blocked and b.stream_id = s.stream_id
        order by b.sequence
        limit 64 - n.ahead
      ) f));
    get diagnostics v_unblocked = row_count;
  end if;
  return v_unblocked;
end
$$;
