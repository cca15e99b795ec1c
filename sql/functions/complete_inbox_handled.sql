-- Settles messages in the transaction of their handler: deletes them, or with p_retain keeps them, stamped. A row counts only
-- while this instance still holds the very attempt it claimed. Returns the ids that it no longer held (null for none).
--
-- From here on the rows are locked, and their streams with them, until the commit, which is all that is still to come: a process
-- that stands still or has gone without a word before it may keep them for ten seconds, not for as long as TCP does.
-- For `= any (array[…])` in joins see complete_outbox_published.
create or replace function whizbang.complete_inbox_handled(
  p_instance_id uuid, p_message_ids uuid[], p_attempts integer[], p_retain boolean default false
) returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_done uuid[];
  v_streams uuid[];
  v_patience interval := current_setting('idle_in_transaction_session_timeout')::interval;
begin
  if v_patience = interval '0' or v_patience > interval '10 seconds' then
    perform set_config('idle_in_transaction_session_timeout', '10s', true);
  end if;
  if p_retain then
    -- An update of these columns alone would not wait for a claim that is marking followers behind one of these rows, and
    -- would leave them marked for ever. FOR UPDATE does, as a delete does.
    perform 1
    from whizbang.wh_inbox o, unnest(p_message_ids, p_attempts) as d (message_id, attempts)
    where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
      and o.processed_at is null
    for update of o;
    with done as (
      update whizbang.wh_inbox o
      set processed_at = clock_timestamp(),
          instance_id = null, lease_expiry = null
      from unnest(p_message_ids, p_attempts) as d (message_id, attempts)
      where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
        and o.processed_at is null
      returning o.message_id, o.stream_id
    )
    select array_agg(message_id), array_agg(stream_id) into v_done, v_streams from done;
  else
    with done as (
      delete from whizbang.wh_inbox o
      using unnest(p_message_ids, p_attempts) as d (message_id, attempts)
      where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
        and o.processed_at is null
      returning o.message_id, o.stream_id
    )
    select array_agg(message_id), array_agg(stream_id) into v_done, v_streams from done;
  end if;
  perform whizbang.unblock_inbox_streams(v_streams);
  if coalesce(cardinality(v_done), 0) = cardinality(p_message_ids) then
    return null;
  end if;
  return array(select unnest(p_message_ids) except select unnest(v_done));
end
$$;
