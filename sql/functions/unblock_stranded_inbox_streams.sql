-- The net below unblock_inbox_streams: frees streams whose blocked rows have no living head, as happens when a head is
-- deleted or parked by hand. Walks the distinct streams of the index of blocked rows, up to p_limit of them from after
-- p_after on. Returns how many rows were freed, and where the next call goes on: null for the beginning, when the end was
-- reached.
create or replace function whizbang.unblock_stranded_inbox_streams(
  p_limit integer default 1000, p_after uuid default null, out freed integer, out next_after uuid
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  -- No stream has this id.
  v_after uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
  with recursive blocked_stream as (
    (select b.stream_id, b.sequence, 1 as position from whizbang.wh_inbox b
     where b.blocked and b.stream_id > v_after order by b.stream_id, b.sequence limit 1)
    union all
    select n.stream_id, n.sequence, s.position + 1
    from blocked_stream s
    cross join lateral (
      select b.stream_id, b.sequence from whizbang.wh_inbox b
      where b.blocked and b.stream_id > s.stream_id
      order by b.stream_id, b.sequence limit 1
    ) n
    where s.position < p_limit
  ),
  unblocked as (
    update whizbang.wh_inbox o
    set blocked = false
    where o.message_id = any (array(
      select f.message_id
      from blocked_stream s
      cross join lateral (
        select b.message_id from whizbang.wh_inbox b
        where b.blocked and b.stream_id = s.stream_id order by b.sequence limit 1
      ) f
      where not exists (
        select 1 from whizbang.wh_inbox e
        where e.stream_id = s.stream_id and e.sequence < s.sequence and e.processed_at is null and not e.blocked
          and (e.scheduled_for is null or e.scheduled_for < 'infinity'))))
    returning 1
  )
  select (select count(*) from unblocked)::integer, (select s.stream_id from blocked_stream s where s.position = p_limit)
    into freed, next_after;
end
$$;
