-- One round trip, one commit: records failures, releases and deferrals, then claims the next batch. The settlements come first, so that
-- the claim already respects a head that has just failed. Completions are not here: a handled message is completed in the
-- transaction of its handler, by complete_inbox_handled().
-- Rows: outcome 'stale' for a settlement that this instance no longer held; 'dead' for a failure that ended in the dead letters; 'claimed' for a claimed message; and, when
-- nothing was claimed, one 'idle' row with the time when something becomes due or the lease of another instance runs out.
create or replace function whizbang.exchange_inbox_work(
  p_instance_id uuid,
  p_failures jsonb, p_failure_settings jsonb,
  p_released_ids uuid[], p_released_attempts integer[],
  p_deferred_ids uuid[], p_deferred_attempts integer[],
  p_limit integer, p_max_bytes bigint, p_lease_seconds double precision, p_block_leased boolean,
  p_closed_keys text[], p_closed_seconds double precision[], p_closed_trial boolean[]
) returns table (
  outcome text, message_id uuid, destination text, message_type text, event_data text, metadata text, stream_id uuid,
  attempts integer, sequence bigint, body_bytes integer, age_ms double precision, status integer, candidates integer,
  idle_ms double precision, suspect boolean, parked boolean, error text, failure_reason integer
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_stale uuid[];
  v_dead uuid[];
  v_failure record;
  v_now timestamptz;
  v_claimed integer := 0;
begin
  -- Nobody waits for this commit to reach the disk: what a crash of the database could undo is a lease, which then was
  -- never taken, or a settlement, which is then made again.
  perform set_config('synchronous_commit', 'off', true);
  if jsonb_array_length(p_failures) > 0 then
    for v_failure in select * from whizbang.report_failures('inbox', p_instance_id, p_failures, p_failure_settings) loop
      if v_failure.outcome = 'stale' then
        v_stale := v_stale || v_failure.message_id;
      elsif v_failure.outcome = 'dead' then
        v_dead := v_dead || v_failure.message_id;
      end if;
    end loop;
  end if;
  if cardinality(p_released_ids) > 0 then
    v_stale := v_stale || whizbang.release_inbox(p_instance_id, p_released_ids, p_released_attempts);
  end if;
  if cardinality(p_deferred_ids) > 0 then
    v_stale := v_stale || whizbang.defer_inbox(p_instance_id, p_deferred_ids, p_deferred_attempts);
  end if;
  return query
  select s.outcome, s.message_id, null::text, null::text, null::text, null::text, null::uuid,
         null::integer, null::bigint, null::integer, null::double precision, null::integer, null::integer,
         null::double precision, null::boolean, null::boolean, null::text, null::integer
  from (select 'stale' as outcome, unnest(v_stale) as message_id union all select 'dead', unnest(v_dead)) s;
  if p_limit <= 0 then
    return;
  end if;
  return query
  select 'claimed', c.message_id, c.destination, c.message_type, c.event_data, c.metadata, c.stream_id, c.attempts,
         c.sequence, c.body_bytes, 
         -- What is infinite, by whose hand ever, has no age; before PostgreSQL 17 it would also fail this claim, and every other.
         case when isfinite(c.received_at) then extract(epoch from clock_timestamp() - c.received_at)::double precision * 1000 else 0 end, c.status,
         c.candidates, null::double precision, c.suspect, c.parked, c.error, c.failure_reason
  from whizbang.claim_orphaned_inbox(p_instance_id, p_limit, p_max_bytes, p_lease_seconds, p_block_leased,
         p_closed_keys, p_closed_seconds, p_closed_trial) c;
  get diagnostics v_claimed = row_count;
  if v_claimed >= p_limit then
    -- There is more than one instance can carry: one that is awake must not leave its sleeping peers asleep.
    perform whizbang.ring_doorbell('inbox');
  elsif v_claimed = 0 then
    v_now := clock_timestamp();
    return query
    select 'idle', null::uuid, null::text, null::text, null::text, null::text, null::uuid,
           null::integer, null::bigint, null::integer, null::double precision, null::integer,
           greatest(
             (select count(*) from (
                select 1 from whizbang.wh_inbox o
                where o.processed_at is null and o.scheduled_for is null and not o.blocked
                  and (o.instance_id is null or o.lease_expiry < v_now)
                order by o.sequence limit p_limit) c),
             (select count(*) from (
                select 1 from whizbang.wh_inbox o
                where o.processed_at is null and o.scheduled_for is not null and o.scheduled_for <= v_now and not o.blocked
                  and (o.instance_id is null or o.lease_expiry < v_now)
                order by o.scheduled_for, o.sequence limit p_limit) d))::integer,
           extract(epoch from least(
             (select o.scheduled_for from whizbang.wh_inbox o
              where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for > v_now
                and o.scheduled_for < 'infinity'
              order by o.scheduled_for, o.sequence limit 1),
             (select min(l.lease_expiry) from (
                select o.lease_expiry from whizbang.wh_inbox o
                where o.processed_at is null and o.scheduled_for is null and not o.blocked
                order by o.sequence limit 1000) l
              where l.lease_expiry > v_now and l.lease_expiry < 'infinity')) - v_now)::double precision * 1000,
           null::boolean, null::boolean, null::text, null::integer;
  end if;
end
$$;
