-- Brings a dead letter back to its table, whole: same id, place in its stream, payload, metadata, scope, status and time;
-- attempts begin at 0 again. One statement decides who does it: false when the row is recovered, held or given up, or has
-- no envelope to bring back. A message that is in its table already counts as brought back, and is left as it is.
create or replace function whizbang.recover_dead_letter(p_dead_letter_id uuid) returns boolean
language plpgsql volatile
as $$
declare
  v_letter whizbang.wh_dead_letters;
begin
  select * into v_letter from whizbang.wh_dead_letters d
  where d.dead_letter_id = p_dead_letter_id and d.recovered_at is null and d.recovery_status in (0, 1)
    and d.operator_disposition not in (2, 3) and d.envelope is not null
  for update;
  if not found then
    return false;
  end if;
  if v_letter.source_table = 'wh_outbox' then
    insert into whizbang.wh_outbox
      (message_id, sequence, destination, message_type, envelope_type, event_data, metadata, scope, stream_id, is_event, flags,
       status, failure_reason, error, body_bytes, created_at)
    overriding system value
    values (v_letter.source_id, v_letter.source_sequence, v_letter.destination, v_letter.message_type, v_letter.envelope_type,
            v_letter.envelope, v_letter.metadata, v_letter.scope, v_letter.stream_id, v_letter.is_event, v_letter.flags,
            v_letter.status, coalesce(v_letter.last_failure_reason, 99), v_letter.error_text, v_letter.body_bytes,
            coalesce(v_letter.source_created_at, clock_timestamp()))
    on conflict (message_id) do nothing;
  else
    insert into whizbang.wh_inbox
      (message_id, sequence, handler_name, message_type, destination, event_data, metadata, scope, stream_id, is_event, flags,
       status, failure_reason, error, body_bytes, received_at)
    overriding system value
    values (v_letter.source_id, v_letter.source_sequence, v_letter.handler_name, v_letter.message_type, v_letter.destination,
            v_letter.envelope, v_letter.metadata, v_letter.scope, v_letter.stream_id, v_letter.is_event, v_letter.flags,
            v_letter.status, coalesce(v_letter.last_failure_reason, 99), v_letter.error_text, v_letter.body_bytes,
            coalesce(v_letter.source_created_at, clock_timestamp()))
    on conflict (message_id) do nothing;
  end if;
  update whizbang.wh_dead_letters d
  set recovery_status = 3, recovery_attempts = d.recovery_attempts + 1, last_recovery_at = clock_timestamp(),
      recovered_at = clock_timestamp(), next_recovery_at = null, parks_stream = false, operator_disposition = 0
  where d.dead_letter_id = p_dead_letter_id;
  perform whizbang.ring_doorbell(case v_letter.source_table when 'wh_outbox' then 'outbox' else 'inbox' end);
  return true;
end
$$;
