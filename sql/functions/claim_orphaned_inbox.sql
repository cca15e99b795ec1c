-- Claims up to p_limit rows (and about p_max_bytes of bodies, one row at the least) for an instance: unprocessed, due, and
-- unleased or with a lease that has run out, in sequence order. Sets the lease and adds one to attempts.
--
-- Prefix rule: of each stream only a contiguous prefix is taken. A row stays when an earlier unprocessed row of its stream
-- is neither in this claim nor leased by this very instance. Outside that order are parked rows (infinity) and rows that
-- failed under the policy `continue` (passable).
--
-- A follower whose head waits for its time is marked `blocked` on the way, and so leaves the indexes that claims read: a
-- million of them cost one visit each, not one per claim. With p_block_leased the same goes for followers of a head that
-- another instance holds; the caller asks for it when full scans keep finding nothing. The head is locked FOR KEY SHARE
-- while its followers are marked: who settles it waits for that, and then sees and frees them.
--
-- Suspects: a row whose lease has run out for the second time may be what kills its holders. It is claimed alone, and what
-- stands before it first, so that it cannot drag its neighbours to the cap.
--
-- Breakers: rows whose message type is in p_closed_keys are put off by p_closed_seconds instead of being claimed; where
-- p_closed_trial is true, one of them is let through.
--
-- Shares: where several instances are at it, each looks first at rows of its own share of the streams, by hash, so that they
-- do not stand in front of heads that others hold. A share is no property: who finds nothing in its own takes what there is,
-- and one claim of eight looks at everything, so that nobody's absence keeps a stream from going on. The prefix rule alone
-- decides what may be taken.
--
-- `candidates` tells how many rows were looked at; `suspect` that the row is on trial; `parked` that a dead letter of its
-- stream wants it to follow. The settings fix the plan, as do the arrays in place of joins: walk the partial index in
-- order, whatever the statistics say of the table at that moment.
create or replace function whizbang.claim_orphaned_inbox(
  p_instance_id uuid, p_limit integer, p_max_bytes bigint, p_lease_seconds double precision,
  p_block_leased boolean default false,
  p_closed_keys text[] default '{}', p_closed_seconds double precision[] default '{}', p_closed_trial boolean[] default '{}'
) returns table (
  message_id uuid, destination text, message_type text, event_data text, metadata text, stream_id uuid,
  attempts integer, sequence bigint, body_bytes integer, received_at timestamptz, error text, failure_reason integer,
  status integer, candidates integer, suspect boolean, parked boolean
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_shares integer := 1;
  v_share integer := 0;
begin
  if random() < 0.875 then
    select case when bool_or(i.instance_id = p_instance_id) then count(*) end, count(*) filter (where i.instance_id < p_instance_id)
    into v_shares, v_share
    from whizbang.wh_service_instances i
    where i.last_heartbeat_at > v_now - interval '35 seconds' and i.metadata ->> 'handles' is distinct from 'false';
    -- A claim under an id that is not known yet, or any more.
    v_shares := coalesce(v_shares, 1);
  end if;
  loop
    return query
    with ready as materialized (
      select o.message_id, o.sequence, o.stream_id, o.body_bytes, o.message_type as breaker_key,
             o.instance_id is not null and o.attempts >= 2 as suspect
      from whizbang.wh_inbox o
      where v_shares = 1
        and o.processed_at is null and o.scheduled_for is null and not o.blocked
        and (o.instance_id is null or o.lease_expiry < v_now)
      order by o.sequence
      limit p_limit
      for no key update skip locked
    ),
    shared as materialized (
      select o.message_id, o.sequence, o.stream_id, o.body_bytes, o.message_type as breaker_key,
             o.instance_id is not null and o.attempts >= 2 as suspect
      from whizbang.wh_inbox o
      where v_shares > 1
        and o.sequence = any (array(
          select w.sequence
          -- Bounded, so that the backlog of others is not read through.
          from (select r.sequence, coalesce(r.stream_id, r.message_id) as share_key
                from whizbang.wh_inbox r
                where r.processed_at is null and r.scheduled_for is null and not r.blocked
                  and (r.instance_id is null or r.lease_expiry < v_now)
                order by r.sequence
                limit p_limit * least(v_shares, 10) * 2) w
          where (pg_catalog.uuid_hash(w.share_key) & 2147483647) % v_shares = v_share
          limit p_limit))
        and o.processed_at is null and o.scheduled_for is null and not o.blocked
        and (o.instance_id is null or o.lease_expiry < v_now)
      order by o.sequence
      for no key update skip locked
    ),
    due as materialized (
      select o.message_id, o.sequence, o.stream_id, o.body_bytes, o.message_type as breaker_key,
             o.instance_id is not null and o.attempts >= 2 as suspect
      from whizbang.wh_inbox o
      where o.processed_at is null and o.scheduled_for is not null and o.scheduled_for <= v_now and not o.blocked
        and (o.instance_id is null or o.lease_expiry < v_now)
      order by o.scheduled_for, o.sequence
      limit p_limit
      for no key update skip locked
    ),
    seen as materialized (
      select * from ready union all select * from shared union all select * from due
    ),
    closed as materialized (
      select s.message_id, b.seconds
      from (select s.message_id, s.breaker_key, row_number() over (partition by s.breaker_key order by s.sequence) as position
            from seen s where cardinality(p_closed_keys) > 0) s
      join unnest(p_closed_keys, p_closed_seconds, p_closed_trial) as b (breaker_key, seconds, trial) on b.breaker_key = s.breaker_key
      where not b.trial or s.position > 1
    ),
    candidate as materialized (
      select s.* from seen s where s.message_id not in (select c.message_id from closed c)
    ),
    stream_head as materialized (
      select s.stream_id, e.message_id, e.sequence, e.waits
      from (select c.stream_id, max(c.sequence) as last_sequence from candidate c where c.stream_id is not null group by c.stream_id order by c.stream_id) s
      -- In the order of the index: neighbours among the streams share its pages, which in a large one are not in the processor's caches.
      cross join lateral (
        select e.message_id, e.sequence,
               -- The last: it is due, but so are more than fit into a look, and its followers would keep it out of every one.
               (e.scheduled_for > v_now or e.blocked or p_block_leased
                or (e.scheduled_for is not null and (e.instance_id is null or e.lease_expiry < v_now))) is true as waits
        from whizbang.wh_inbox e
        where e.stream_id = s.stream_id and e.sequence < s.last_sequence and e.processed_at is null
          and (e.scheduled_for is null or (e.scheduled_for < 'infinity' and not e.passable))
          and (e.instance_id is distinct from p_instance_id or e.lease_expiry < v_now)
          and e.message_id not in (select c.message_id from candidate c)
        order by e.sequence
        limit 1
      ) e
    ),
    open_row as materialized (
      select c.message_id, c.sequence, c.suspect,
             sum(c.body_bytes) over (order by c.sequence rows unbounded preceding) - c.body_bytes as bytes_before,
             row_number() over (order by c.sequence) as position,
             coalesce(bool_or(c.suspect) over (order by c.sequence rows unbounded preceding), false) as from_suspect
      from candidate c
      left join stream_head h on h.stream_id = c.stream_id
      where h.stream_id is null or c.sequence < h.sequence
    ),
    claimable as materialized (
      select f.message_id
      from open_row f
      where f.position <= p_limit and f.bytes_before < p_max_bytes
        and (not f.from_suspect or f.position = 1)
    ),
    held_head as materialized (
      select o.message_id, o.stream_id
      from whizbang.wh_inbox o
      where o.message_id = any (array(select h.message_id from stream_head h where h.waits))
        -- Looked at again under the lock: it may have been settled or parked since this statement began.
        and o.processed_at is null and (o.scheduled_for is null or o.scheduled_for < 'infinity')
      for key share skip locked
    ),
    blocking as (
      update whizbang.wh_inbox o
      set blocked = true
      where o.message_id = any (array(
        select c.message_id
        from candidate c
        join stream_head h on h.stream_id = c.stream_id and c.sequence > h.sequence
        join held_head l on l.message_id = h.message_id))
    ),
    putting_off as (
      update whizbang.wh_inbox o
      set scheduled_for = v_now + (select b.seconds from closed b where b.message_id = o.message_id) * interval '1 second'
      where o.message_id = any (array(select b.message_id from closed b))
    ),
    claimed as (
      update whizbang.wh_inbox o
      set instance_id = p_instance_id,
          lease_expiry = v_now + p_lease_seconds * interval '1 second',
          attempts = o.attempts + 1,
          -- The holder before died, or lost its lease: the only trace of it is here.
          failure_reason = case when o.instance_id is null then o.failure_reason else 6 end,
          error = case when o.instance_id is null then o.error
                       else format('the lease of instance %s ended at %s', o.instance_id, o.lease_expiry) end
      where o.message_id = any (array(select f.message_id from claimable f))
      returning o.message_id, o.destination, o.message_type, o.event_data, o.metadata, o.stream_id, o.attempts, o.sequence,
                o.body_bytes, o.received_at, o.error, o.failure_reason, o.status
    )
    select c.message_id, c.destination::text, c.message_type::text, c.event_data::text, c.metadata::text, c.stream_id,
           c.attempts, c.sequence, c.body_bytes, c.received_at, c.error, c.failure_reason, c.status,
           (select count(*) from seen)::integer,
           c.message_id = any (array(select f.message_id from candidate f where f.suspect)),
           c.stream_id is not null and (select exists (select 1 from whizbang.wh_dead_letters d where d.parks_stream))
             and exists (select 1 from whizbang.wh_dead_letters d
                         where d.parks_stream and d.stream_id = c.stream_id and d.source_table = 'wh_inbox'
                           -- What comes back from before it does not follow it.
                           and d.source_sequence < c.sequence)
    from claimed c
    order by c.sequence;
    exit when found or v_shares = 1;
    v_shares := 1;
  end loop;
end
$$;
