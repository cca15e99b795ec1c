-- Settles messages that the broker has confirmed: deletes them, or with p_retain keeps them, stamped. A row counts only
-- while this instance still holds the very attempt it claimed. Returns the ids that it no longer held (null for none).
--
-- Rows are joined by `= any (array[…])` where `=` would do, here and wherever rows are settled: a join on equality may also begin
-- with the whole table in the order of its key, and does when statistics say that it is empty. They say so in every burst that
-- follows a vacuum of the drained table.
create or replace function whizbang.complete_outbox_published(
  p_instance_id uuid, p_message_ids uuid[], p_attempts integer[], p_retain boolean default false
) returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_done uuid[];
  v_streams uuid[];
begin
  if p_retain then
    -- An update of these columns alone would not wait for a claim that is marking followers behind one of these rows, and
    -- would leave them marked for ever. FOR UPDATE does, as a delete does.
    perform 1
    from whizbang.wh_outbox o, unnest(p_message_ids, p_attempts) as d (message_id, attempts)
    where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
      and o.processed_at is null
    for update of o;
    with done as (
      update whizbang.wh_outbox o
      set status = o.status | 4, published_at = clock_timestamp(), processed_at = clock_timestamp(),
          instance_id = null, lease_expiry = null
      from unnest(p_message_ids, p_attempts) as d (message_id, attempts)
      where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
        and o.processed_at is null
      returning o.message_id, o.stream_id
    )
    select array_agg(message_id), array_agg(stream_id) into v_done, v_streams from done;
  else
    with done as (
      delete from whizbang.wh_outbox o
      using unnest(p_message_ids, p_attempts) as d (message_id, attempts)
      where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
        and o.processed_at is null
      returning o.message_id, o.stream_id
    )
    select array_agg(message_id), array_agg(stream_id) into v_done, v_streams from done;
  end if;
  perform whizbang.unblock_outbox_streams(v_streams);
  if coalesce(cardinality(v_done), 0) = cardinality(p_message_ids) then
    return null;
  end if;
  return array(select unnest(p_message_ids) except select unnest(v_done));
end
$$;
