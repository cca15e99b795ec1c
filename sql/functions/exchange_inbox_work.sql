-- One round trip, one commit: records failures, releases and deferrals, then claims the next batch. The settlements come first, so that
-- the claim already respects a head that has just failed. Completions are not here: a handled message is completed in the
-- transaction of its handler, by complete_inbox_handled().
-- Rows: outcome 'stale' for a settlement that this instance no longer held; 'claimed' for a claimed message; and, when
-- nothing was claimed, one 'idle' row with the time when something becomes due or the lease of another instance runs out.
create or replace function whizbang.exchange_inbox_work(
  p_instance_id uuid,
  p_failed_ids uuid[], p_failed_attempts integer[], p_failed_completed_status integer[], p_failed_errors text[],
  p_failed_reasons integer[],
  p_released_ids uuid[], p_released_attempts integer[],
  p_deferred_ids uuid[], p_deferred_attempts integer[],
  p_limit integer, p_max_bytes bigint, p_lease_seconds double precision, p_block_leased boolean
) returns table (
  outcome text, message_id uuid, destination text, message_type text, event_data text, metadata text, stream_id uuid,
  attempts integer, sequence bigint, body_bytes integer, age_ms double precision, status integer, candidates integer,
  idle_ms double precision
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_stale uuid[];
  v_now timestamptz;
  v_claimed integer := 0;
begin
  -- Nobody waits for this commit to reach the disk: what a crash of the database could undo is a lease, which then was
  -- never taken, or a settlement, which is then made again.
  perform set_config('synchronous_commit', 'off', true);
  if cardinality(p_failed_ids) > 0 then
    v_stale := v_stale || whizbang.process_inbox_failures(
      p_instance_id, p_failed_ids, p_failed_attempts, p_failed_completed_status, p_failed_errors, p_failed_reasons);
  end if;
  if cardinality(p_released_ids) > 0 then
    v_stale := v_stale || whizbang.release_inbox(p_instance_id, p_released_ids, p_released_attempts);
  end if;
  if cardinality(p_deferred_ids) > 0 then
    v_stale := v_stale || whizbang.defer_inbox(p_instance_id, p_deferred_ids, p_deferred_attempts);
  end if;
  if v_stale is not null then
    return query
    select 'stale', s.message_id, null::text, null::text, null::text, null::text, null::uuid,
           null::integer, null::bigint, null::integer, null::double precision, null::integer, null::integer, null::double precision
    from unnest(v_stale) as s (message_id);
  end if;
  if p_limit <= 0 then
    return;
  end if;
  return query
  select 'claimed', c.message_id, c.destination, c.message_type, c.event_data, c.metadata, c.stream_id, c.attempts,
         c.sequence, c.body_bytes, extract(epoch from clock_timestamp() - c.received_at)::double precision * 1000, c.status,
         c.candidates, null::double precision
  from whizbang.claim_orphaned_inbox(p_instance_id, p_limit, p_max_bytes, p_lease_seconds, p_block_leased) c;
  get diagnostics v_claimed = row_count;
  if v_claimed >= p_limit then
    -- There is more than one instance can carry: one that is awake must not leave its sleeping peers asleep.
    perform whizbang.ring_doorbell('inbox');
  elsif v_claimed = 0 then
    v_now := clock_timestamp();
    return query
    select 'idle', null::uuid, null::text, null::text, null::text, null::text, null::uuid,
           null::integer, null::bigint, null::integer, null::double precision, null::integer,
           (select count(*) from (
              select 1 from whizbang.wh_inbox o
              where o.processed_at is null and o.scheduled_for is null and not o.blocked
                and (o.instance_id is null or o.lease_expiry < v_now)
              order by o.sequence limit p_limit) c)::integer,
           extract(epoch from least(
             (select o.scheduled_for from whizbang.wh_inbox o
              where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for > v_now
                and o.scheduled_for < 'infinity'
              order by o.scheduled_for, o.sequence limit 1),
             (select min(l.lease_expiry) from (
                select o.lease_expiry from whizbang.wh_inbox o
                where o.processed_at is null and o.scheduled_for is null and not o.blocked
                order by o.sequence limit 1000) l
              where l.lease_expiry > v_now)) - v_now)::double precision * 1000;
  end if;
end
$$;
