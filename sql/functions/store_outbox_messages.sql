-- Stores messages in the caller's transaction, in the order of the arrays, and wakes a sleeping publisher.
-- All arrays have the same length; stream_ids and scheduled_for may hold nulls. A message id that is already there is
-- left alone. Returns how many rows were stored.
create or replace function whizbang.store_outbox_messages(
  p_message_ids uuid[], p_destinations text[], p_message_types text[], p_event_data text[], p_metadata text[],
  p_stream_ids uuid[], p_scheduled_for timestamptz[]
) returns integer
language plpgsql volatile
as $$
declare
  v_stored integer;
begin
  if '00000000-0000-0000-0000-000000000000' = any (p_stream_ids) then
    raise exception 'EmptyStreamId: the stream id is the all-zero UUID'
      using errcode = 'check_violation', hint = 'Use null for a message without a stream.';
  end if;
  insert into whizbang.wh_outbox
    (message_id, destination, message_type, event_data, metadata, stream_id, scheduled_for, body_bytes)
  select m.message_id, m.destination, m.message_type, m.event_data::json, m.metadata::json, m.stream_id, m.scheduled_for,
         octet_length(m.event_data)
  from unnest(p_message_ids, p_destinations, p_message_types, p_event_data, p_metadata, p_stream_ids, p_scheduled_for)
       with ordinality as m (message_id, destination, message_type, event_data, metadata, stream_id, scheduled_for, position)
  order by m.position
  on conflict (message_id) do nothing;
  get diagnostics v_stored = row_count;
  if v_stored > 0 then
    perform whizbang.ring_doorbell('outbox');
  end if;
  return v_stored;
end
$$;
