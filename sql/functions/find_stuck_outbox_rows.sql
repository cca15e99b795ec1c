-- Rows that were claimed more often than the cap allows and never drained, worst first; and parked rows (infinity), which
-- nothing will ever drain. Served by idx_outbox_stuck_sentinel and idx_outbox_parked; a threshold below 5 reads the table beside.
create or replace function whizbang.find_stuck_outbox_rows(p_max_attempts integer, p_limit integer)
returns table (
  message_id uuid, message_type text, stream_id uuid, attempts integer, claimed_since timestamptz, parked boolean
)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return query
  select s.message_id, s.message_type::text, s.stream_id, s.attempts, s.created_at, s.scheduled_for is not distinct from 'infinity'
  from (
    (select o.message_id, o.message_type, o.stream_id, o.attempts, o.created_at, o.scheduled_for, o.sequence from whizbang.wh_outbox o
     where o.processed_at is null and o.past_sentinel and o.attempts > p_max_attempts
     order by o.attempts desc, o.sequence limit p_limit)
    union
    (select o.message_id, o.message_type, o.stream_id, o.attempts, o.created_at, o.scheduled_for, o.sequence from whizbang.wh_outbox o
     where p_max_attempts < 5 and o.processed_at is null and not o.past_sentinel and o.attempts > p_max_attempts
     order by o.attempts desc, o.sequence limit p_limit)
    union
    (select o.message_id, o.message_type, o.stream_id, o.attempts, o.created_at, o.scheduled_for, o.sequence from whizbang.wh_outbox o
     where o.processed_at is null and o.scheduled_for = 'infinity'
     order by o.sequence limit p_limit)
  ) s
  order by s.attempts desc, s.created_at
  limit p_limit;
end
$$;
