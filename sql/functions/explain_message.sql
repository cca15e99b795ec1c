-- Why a message has not gone on, from its row: its schedule, its lease, and the message of its stream it waits behind.
create or replace function whizbang.explain_message(p_message_id uuid)
returns table (
  category text, attempts integer, error text, message_type text, destination text, processed boolean, parked boolean,
  scheduled_at text, leased_by uuid, leased_until text, ahead uuid, failed_reason integer
)
language plpgsql stable
as $$
begin
  return query
  select 'outbox', o.attempts, o.error, o.message_type::text, o.destination::text, o.processed_at is not null,
         o.scheduled_for is not distinct from 'infinity',
         case when o.scheduled_for > clock_timestamp() and o.scheduled_for < 'infinity' then o.scheduled_for::text end,
         case when o.lease_expiry >= clock_timestamp() then o.instance_id end,
         case when o.lease_expiry >= clock_timestamp() then o.lease_expiry::text end,
         (select e.message_id from whizbang.wh_outbox e
          where e.stream_id = o.stream_id and e.sequence < o.sequence and e.processed_at is null
            and (e.scheduled_for is null or (e.scheduled_for < 'infinity' and not e.passable))
          order by e.sequence limit 1),
         o.failure_reason
  from whizbang.wh_outbox o where o.message_id = p_message_id;
  return query
  select 'inbox', o.attempts, o.error, o.message_type::text, o.destination::text, o.processed_at is not null,
         o.scheduled_for is not distinct from 'infinity',
         case when o.scheduled_for > clock_timestamp() and o.scheduled_for < 'infinity' then o.scheduled_for::text end,
         case when o.lease_expiry >= clock_timestamp() then o.instance_id end,
         case when o.lease_expiry >= clock_timestamp() then o.lease_expiry::text end,
         (select e.message_id from whizbang.wh_inbox e
          where e.stream_id = o.stream_id and e.sequence < o.sequence and e.processed_at is null
            and (e.scheduled_for is null or (e.scheduled_for < 'infinity' and not e.passable))
          order by e.sequence limit 1),
         o.failure_reason
  from whizbang.wh_inbox o where o.message_id = p_message_id;
end
$$;
