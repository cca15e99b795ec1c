-- The net below unblock_outbox_streams: frees streams whose blocked rows have no living head, as happens when a head is
-- deleted or parked by hand. Walks the distinct streams of the index of blocked rows, up to p_limit of them. Returns how
-- many rows were freed.
create or replace function whizbang.unblock_stranded_outbox_streams(p_limit integer default 1000) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_unblocked integer;
begin
  with recursive blocked_stream as (
    (select b.stream_id, b.sequence, 1 as position from whizbang.wh_outbox b where b.blocked order by b.stream_id, b.sequence limit 1)
    union all
    select n.stream_id, n.sequence, s.position + 1
    from blocked_stream s
    cross join lateral (
      select b.stream_id, b.sequence from whizbang.wh_outbox b
      where b.blocked and b.stream_id > s.stream_id
      order by b.stream_id, b.sequence limit 1
    ) n
    where s.position < p_limit
  )
  update whizbang.wh_outbox o
  set blocked = false
  where o.message_id = any (array(
    select f.message_id
    from blocked_stream s
    cross join lateral (
      select b.message_id from whizbang.wh_outbox b
      where b.blocked and b.stream_id = s.stream_id order by b.sequence limit 1
    ) f
    where not exists (
      select 1 from whizbang.wh_outbox e
      where e.stream_id = s.stream_id and e.sequence < s.sequence and e.processed_at is null and not e.blocked
        and (e.scheduled_for is null or e.scheduled_for < 'infinity'))));
  get diagnostics v_unblocked = row_count;
  return v_unblocked;
end
$$;
