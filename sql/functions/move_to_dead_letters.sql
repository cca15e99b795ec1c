-- Moves messages that are given up into wh_dead_letters, whole, in one statement: they are in one table or the other at
-- any moment. Fenced by holder and attempt; a null p_instance_id moves rows whoever holds them (an operator's doing).
-- Moving what has been moved does nothing. A message that dies again after a recovery updates its row.
-- p_messages: [{messageId, attempt, reason, lastReason, error, fingerprint, parks, untried, completedStatus}].
-- Returns the ids that were moved (null for none).
-- For `= any (array[…])` in joins see complete_outbox_published.
create or replace function whizbang.move_to_dead_letters(
  p_source_table text, p_instance_id uuid, p_messages jsonb, p_generation text
) returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_moved uuid[];
  v_streams uuid[];
begin
  if p_source_table = 'wh_outbox' then
    with gone as (
      delete from whizbang.wh_outbox o
      using jsonb_to_recordset(p_messages) as m ("messageId" uuid, attempt integer)
      where o.message_id = any (array[m."messageId"]) and o.processed_at is null
        and (p_instance_id is null or (o.instance_id = p_instance_id and o.attempts = m.attempt))
      returning o.*
    ),
    moved as (
      insert into whizbang.wh_dead_letters as d
        (dead_letter_id, source_table, source_id, stream_id, message_type, destination, handler_name, envelope_type, envelope,
         metadata, scope, is_event, flags, status, source_sequence, source_created_at, body_bytes, failure_reason,
         last_failure_reason, error_text, attempts_when_dlq, parks_stream, dead_lettered_by, generation, error_fingerprint,
         error_fingerprint_version, dead_lettered_at)
      select whizbang.uuid_v7(), 'wh_outbox', g.message_id, g.stream_id, g.message_type, g.destination, null, g.envelope_type,
             g.event_data, g.metadata, g.scope, g.is_event, g.flags, g.status | coalesce(m."completedStatus", 0) | 32768,
             g.sequence, g.created_at, g.body_bytes, m.reason, coalesce(m."lastReason", nullif(g.failure_reason, 99), m.reason),
             coalesce(m.error, g.error), g.attempts - case when m.untried then 1 else 0 end,
             coalesce(m.parks, false) and g.stream_id is not null, p_instance_id, p_generation, m.fingerprint,
             case when m.fingerprint is null then null else 1 end, clock_timestamp()
      from gone g
      join (
        -- One that is named twice is one.
        select distinct on (e."messageId") e.*
        from jsonb_to_recordset(p_messages) as e
             ("messageId" uuid, reason integer, "lastReason" integer, error text, fingerprint text, parks boolean,
              untried boolean, "completedStatus" integer)) m on m."messageId" = g.message_id
      on conflict (source_table, source_id) do update
      -- It died again: what it was and why is renewed, what recovery has spent on it stays.
      set stream_id = excluded.stream_id, envelope = excluded.envelope, metadata = excluded.metadata, status = excluded.status,
          source_sequence = excluded.source_sequence, failure_reason = excluded.failure_reason,
          last_failure_reason = excluded.last_failure_reason, error_text = excluded.error_text,
          attempts_when_dlq = excluded.attempts_when_dlq, parks_stream = excluded.parks_stream,
          dead_lettered_at = excluded.dead_lettered_at, dead_lettered_by = excluded.dead_lettered_by,
          generation = excluded.generation, error_fingerprint = excluded.error_fingerprint,
          error_fingerprint_version = excluded.error_fingerprint_version,
          recovery_status = 0, next_recovery_at = null, recovered_at = null, operator_disposition = 0
      returning d.source_id, d.stream_id
    )
    select array_agg(source_id), array_agg(stream_id) into v_moved, v_streams from moved;
    perform whizbang.unblock_outbox_streams(v_streams);
  elsif p_source_table = 'wh_inbox' then
    with gone as (
      delete from whizbang.wh_inbox o
      using jsonb_to_recordset(p_messages) as m ("messageId" uuid, attempt integer)
      where o.message_id = any (array[m."messageId"]) and o.processed_at is null
        and (p_instance_id is null or (o.instance_id = p_instance_id and o.attempts = m.attempt))
      returning o.*
    ),
    moved as (
      insert into whizbang.wh_dead_letters as d
        (dead_letter_id, source_table, source_id, stream_id, message_type, destination, handler_name, envelope_type, envelope,
         metadata, scope, is_event, flags, status, source_sequence, source_created_at, body_bytes, failure_reason,
         last_failure_reason, error_text, attempts_when_dlq, parks_stream, dead_lettered_by, generation, error_fingerprint,
         error_fingerprint_version, dead_lettered_at)
      select whizbang.uuid_v7(), 'wh_inbox', g.message_id, g.stream_id, g.message_type, g.destination, g.handler_name, null,
             g.event_data, g.metadata, g.scope, g.is_event, g.flags, g.status | coalesce(m."completedStatus", 0) | 32768,
             g.sequence, g.received_at, g.body_bytes, m.reason, coalesce(m."lastReason", nullif(g.failure_reason, 99), m.reason),
             coalesce(m.error, g.error), g.attempts - case when m.untried then 1 else 0 end,
             coalesce(m.parks, false) and g.stream_id is not null, p_instance_id, p_generation, m.fingerprint,
             case when m.fingerprint is null then null else 1 end, clock_timestamp()
      from gone g
      join (
        -- One that is named twice is one.
        select distinct on (e."messageId") e.*
        from jsonb_to_recordset(p_messages) as e
             ("messageId" uuid, reason integer, "lastReason" integer, error text, fingerprint text, parks boolean,
              untried boolean, "completedStatus" integer)) m on m."messageId" = g.message_id
      on conflict (source_table, source_id) do update
      -- It died again: what it was and why is renewed, what recovery has spent on it stays.
      set stream_id = excluded.stream_id, envelope = excluded.envelope, metadata = excluded.metadata, status = excluded.status,
          source_sequence = excluded.source_sequence, failure_reason = excluded.failure_reason,
          last_failure_reason = excluded.last_failure_reason, error_text = excluded.error_text,
          attempts_when_dlq = excluded.attempts_when_dlq, parks_stream = excluded.parks_stream,
          dead_lettered_at = excluded.dead_lettered_at, dead_lettered_by = excluded.dead_lettered_by,
          generation = excluded.generation, error_fingerprint = excluded.error_fingerprint,
          error_fingerprint_version = excluded.error_fingerprint_version,
          recovery_status = 0, next_recovery_at = null, recovered_at = null, operator_disposition = 0
      returning d.source_id, d.stream_id
    )
    select array_agg(source_id), array_agg(stream_id) into v_moved, v_streams from moved;
    perform whizbang.unblock_inbox_streams(v_streams);
  else
    raise exception 'move_to_dead_letters: % is neither wh_outbox nor wh_inbox', p_source_table
      using errcode = 'invalid_parameter_value';
  end if;
  if v_moved is not null then
    -- Rings once, while the recovery worker sleeps; it is awake for the rest of a mass dead-lettering.
    perform whizbang.ring_doorbell('deadletter');
  end if;
  return v_moved;
end
$$;
