-- Claims up to p_limit rows (and about p_max_bytes of bodies, one row at the least) for an instance: unprocessed, due, and
-- unleased or with a lease that has run out, in sequence order. Sets the lease and adds one to attempts.
--
-- Prefix rule: of each stream only a contiguous prefix is taken. A row stays when an earlier unprocessed row of its stream
-- is neither in this claim nor leased by this very instance; parked rows (infinity) are outside the order.
--
-- A follower whose head waits for its time is marked `blocked` on the way, and so leaves the indexes that claims read: a
-- million of them cost one visit each, not one per claim. With p_block_leased the same goes for followers of a head that
-- another instance holds; the caller asks for it when full scans keep finding nothing. The head is locked FOR KEY SHARE
-- while its followers are marked: who settles it waits for that, and then sees and frees them.
--
-- `candidates` tells how many rows were looked at for the claim.
--
-- The settings fix the plan, as do the arrays in place of joins: walk the partial index in order, whatever the statistics say of the table at that moment.
create or replace function whizbang.claim_orphaned_outbox(
  p_instance_id uuid, p_limit integer, p_max_bytes bigint, p_lease_seconds double precision,
  p_block_leased boolean default false
) returns table (
  message_id uuid, destination text, message_type text, event_data text, metadata text, stream_id uuid,
  attempts integer, sequence bigint, body_bytes integer, created_at timestamptz, error text, failure_reason integer,
  status integer, candidates integer
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
begin
  return query
  with ready as materialized (
    select o.message_id, o.sequence, o.stream_id, o.body_bytes
    from whizbang.wh_outbox o
    where o.processed_at is null and o.scheduled_for is null and not o.blocked
      and (o.instance_id is null or o.lease_expiry < v_now)
    order by o.sequence
    limit p_limit
    for no key update skip locked
  ),
  due as materialized (
    select o.message_id, o.sequence, o.stream_id, o.body_bytes
    from whizbang.wh_outbox o
    where o.processed_at is null and o.scheduled_for is not null and o.scheduled_for <= v_now and not o.blocked
      and (o.instance_id is null or o.lease_expiry < v_now)
    order by o.scheduled_for, o.sequence
    limit p_limit
    for no key update skip locked
  ),
  candidate as materialized (
    select * from ready union all select * from due
  ),
  stream_head as materialized (
    select s.stream_id, e.message_id, e.sequence, e.waits
    from (select c.stream_id, max(c.sequence) as last_sequence from candidate c where c.stream_id is not null group by c.stream_id) s
    cross join lateral (
      select e.message_id, e.sequence,
             (e.scheduled_for > v_now or e.blocked or p_block_leased) is true as waits
      from whizbang.wh_outbox e
      where e.stream_id = s.stream_id and e.sequence < s.last_sequence and e.processed_at is null
        and (e.scheduled_for is null or e.scheduled_for < 'infinity')
        and (e.instance_id is distinct from p_instance_id or e.lease_expiry < v_now)
        and e.message_id not in (select c.message_id from candidate c)
      order by e.sequence
      limit 1
    ) e
  ),
  claimable as (
    select f.message_id
    from (
      select c.message_id, c.sequence,
             sum(c.body_bytes) over (order by c.sequence rows unbounded preceding) - c.body_bytes as bytes_before
      from candidate c
      left join stream_head h on h.stream_id = c.stream_id
      where h.stream_id is null or c.sequence < h.sequence
      order by c.sequence
      limit p_limit
    ) f
    where f.bytes_before < p_max_bytes
  ),
  held_head as materialized (
    select o.message_id, o.stream_id
    from whizbang.wh_outbox o
    where o.message_id = any (array(select h.message_id from stream_head h where h.waits))
      -- Looked at again under the lock: it may have been settled or parked since this statement began.
      and o.processed_at is null and (o.scheduled_for is null or o.scheduled_for < 'infinity')
    for key share skip locked
  ),
  blocking as (
    update whizbang.wh_outbox o
    set blocked = true
    where o.message_id = any (array(
      select c.message_id
      from candidate c
      join stream_head h on h.stream_id = c.stream_id and c.sequence > h.sequence
      join held_head l on l.message_id = h.message_id))
  ),
  claimed as (
    update whizbang.wh_outbox o
    set instance_id = p_instance_id,
        lease_expiry = v_now + p_lease_seconds * interval '1 second',
        attempts = o.attempts + 1
    where o.message_id = any (array(select f.message_id from claimable f))
    returning o.message_id, o.destination, o.message_type, o.event_data, o.metadata, o.stream_id, o.attempts, o.sequence,
              o.body_bytes, o.created_at, o.error, o.failure_reason, o.status
  )
  select c.message_id, c.destination::text, c.message_type::text, c.event_data::text, c.metadata::text, c.stream_id,
         c.attempts, c.sequence, c.body_bytes, c.created_at, c.error, c.failure_reason, c.status,
         (select count(*) from candidate)::integer
  from claimed c
  order by c.sequence;
end
$$;
