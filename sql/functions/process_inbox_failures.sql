-- Records tries that failed. A row counts only while this instance still holds the very attempt it claimed.
--
-- Attempts left: adds the Failed bit and what was completed, keeps the error, gives up the lease, and schedules the next
-- try by exponential backoff (30 s doubled per attempt, 5 min at the most). attempts was counted by the claim and is not
-- touched. None left, or a permanent reason: the row goes to the dead letters, here and now. A row that cannot be moved
-- stays and is tried again later; it fails neither its neighbours nor this call.
--
-- p_failures: [{messageId, attempt, completedStatus, error, reason, delayMs, permanent, policy, fingerprint, untried}]; policy
-- is 0 block, 1 continue, 2 park. p_settings: {maxAttempts (null: for ever), baseSeconds, maxFactor, jitter, generation}.
-- Returns one row per failure: retry, dead, or stale when the row was no longer held.
-- For `= any (array[…])` in joins see complete_outbox_published.
create or replace function whizbang.process_inbox_failures(
  p_instance_id uuid, p_failures jsonb, p_settings jsonb default '{}'
) returns table (message_id uuid, outcome text)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_max_attempts integer := case when p_settings ? 'maxAttempts' then (p_settings ->> 'maxAttempts')::integer else 10 end;
  v_base interval := coalesce((p_settings ->> 'baseSeconds')::double precision, 30) * interval '1 second';
  v_max_factor double precision := coalesce((p_settings ->> 'maxFactor')::double precision, 10);
  v_jitter double precision := coalesce((p_settings ->> 'jitter')::double precision, 0);
  v_generation text := coalesce(p_settings ->> 'generation', '');
  v_dying jsonb;
  v_dead uuid[];
  v_message jsonb;
  v_problem text;
  v_passed uuid[];
begin
  select jsonb_agg(jsonb_build_object(
           'messageId', f."messageId", 'attempt', f.attempt, 'error', f.error, 'fingerprint', f.fingerprint,
           'completedStatus', f."completedStatus", 'untried', f.untried, 'parks', f.policy = 2,
           'reason', case when f.permanent then f.reason else 5 end, 'lastReason', f.reason))
    into v_dying
  from jsonb_to_recordset(p_failures) as f
       ("messageId" uuid, attempt integer, "completedStatus" integer, error text, reason integer, permanent boolean,
        policy integer, fingerprint text, untried boolean)
  where f.permanent or f.attempt >= v_max_attempts;
  if v_dying is not null then
    begin
      v_dead := whizbang.move_to_dead_letters('wh_inbox', p_instance_id, v_dying, v_generation);
    exception when others then
      v_problem := sqlerrm;
      -- One of them cannot be moved. Each by itself, so that the others can.
      for v_message in select * from jsonb_array_elements(v_dying) loop
        begin
          v_dead := v_dead || whizbang.move_to_dead_letters('wh_inbox', p_instance_id, jsonb_build_array(v_message), v_generation);
        exception when others then
          v_problem := sqlerrm;
          raise warning 'message % could not be moved to the dead letters: %', v_message ->> 'messageId', v_problem;
        end;
      end loop;
    end;
    return query select d, 'dead' from unnest(v_dead) as d;
  end if;
  return query
  with failed as (
    update whizbang.wh_inbox o
    set status = o.status | coalesce(f."completedStatus", 0) | 32768,
        error = f.error,
        failure_reason = coalesce(f.reason, 0),
        scheduled_for = v_now + case
          -- 30 days at the most: a delay beyond is a mistake of units, and must not fail the recording.
          when f."delayMs" is not null then least(greatest(f."delayMs", 0), 2592000000) * interval '1 millisecond'
          else v_base * least(power(2, least(o.attempts, 10)), v_max_factor) * (1 + v_jitter * (random() - 0.5)) end,
        passable = coalesce(f.policy = 1, false),
        instance_id = null,
        lease_expiry = null
    from jsonb_to_recordset(p_failures) as f
         ("messageId" uuid, attempt integer, "completedStatus" integer, error text, reason integer, "delayMs" double precision,
          policy integer)
    where o.message_id = any (array[f."messageId"]) and o.instance_id = p_instance_id and o.attempts = f.attempt and o.processed_at is null
    returning o.message_id
  )
  select f."messageId", case when d.message_id is null then 'stale' else 'retry' end
  from jsonb_to_recordset(p_failures) as f ("messageId" uuid)
  left join failed d on d.message_id = f."messageId"
  where f."messageId" <> all (coalesce(v_dead, '{}'));
  -- Policy `continue`: followers that were put behind it while it was in hand may pass it now.
  select array_agg(o.stream_id) into v_passed
  from whizbang.wh_inbox o
  where o.passable and o.stream_id is not null
    and o.message_id = any (array(select f."messageId" from jsonb_to_recordset(p_failures) as f ("messageId" uuid, policy integer)
                                  where f.policy = 1));
  if v_passed is not null then
    perform whizbang.unblock_inbox_streams(v_passed);
  end if;
end
$$;
