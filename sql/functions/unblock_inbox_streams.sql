-- Brings followers of a head that has gone back into the indexes that claims read: twice as many as rows went, at least
-- one, so that a freed stream of a million speeds up batch by batch instead of being rewritten at once.
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
      from (select s.stream_id, count(*) as gone from unnest(p_stream_ids) as s (stream_id)
            where s.stream_id is not null group by s.stream_id) s
      cross join lateral (
        select b.message_id from whizbang.wh_inbox b
        where b.blocked and b.stream_id = s.stream_id
        order by b.sequence
        limit 2 * s.gone
      ) f));
    get diagnostics v_unblocked = row_count;
  end if;
  return v_unblocked;
end
$$;
