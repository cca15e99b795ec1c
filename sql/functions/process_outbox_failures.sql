-- Records tries that failed: adds the Failed bit and what was completed, keeps the error, schedules the next try by
-- exponential backoff (30 s doubled per attempt, 5 min at the most) and gives up the lease. attempts was counted by the
-- claim and is not touched. A row counts only while this instance still holds the very attempt it claimed.
-- Returns the ids that it no longer held (null for none).
create or replace function whizbang.process_outbox_failures(
  p_instance_id uuid, p_message_ids uuid[], p_attempts integer[], p_completed_status integer[], p_errors text[],
  p_reasons integer[]
) returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_done uuid[];
begin
  with done as (
    update whizbang.wh_outbox o
    set status = o.status | f.completed_status | 32768,
        error = f.error,
        failure_reason = coalesce(f.reason, 0),
        scheduled_for = v_now + (interval '30 seconds' * least(power(2, least(o.attempts, 10)), 10)),
        instance_id = null,
        lease_expiry = null
    from unnest(p_message_ids, p_attempts, p_completed_status, p_errors, p_reasons)
         as f (message_id, attempts, completed_status, error, reason)
    where o.message_id = f.message_id and o.instance_id = p_instance_id and o.attempts = f.attempts
      and o.processed_at is null
    returning o.message_id
  )
  select array_agg(message_id) into v_done from done;
  if coalesce(cardinality(v_done), 0) = cardinality(p_message_ids) then
    return null;
  end if;
  return array(select unnest(p_message_ids) except select unnest(v_done));
end
$$;
