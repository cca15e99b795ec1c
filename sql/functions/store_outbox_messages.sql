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
  if cardinality(p_message_ids) = 1 then
    -- What most transactions store: as VALUES it takes a third less of the server's time than as a set of one.
    insert into whizbang.wh_outbox
      (message_id, destination, message_type, event_data, metadata, stream_id, scheduled_for, body_bytes)
    values (p_message_ids[1], p_destinations[1], p_message_types[1], p_event_data[1]::json, p_metadata[1]::json,
            p_stream_ids[1], p_scheduled_for[1], octet_length(p_event_data[1]))
    on conflict (message_id) do nothing;
  else
    insert into whizbang.wh_outbox
      (message_id, destination, message_type, event_data, metadata, stream_id, scheduled_for, body_bytes)
    select m.message_id, m.destination, m.message_type, m.event_data::json, m.metadata::json, m.stream_id, m.scheduled_for,
           octet_length(m.event_data)
    from unnest(p_message_ids, p_destinations, p_message_types, p_event_data, p_metadata, p_stream_ids, p_scheduled_for)
         with ordinality as m (message_id, destination, message_type, event_data, metadata, stream_id, scheduled_for, position)
    order by m.position
    on conflict (message_id) do nothing;
  end if;
  get diagnostics v_stored = row_count;
  if v_stored > 0 then
    perform whizbang.ring_doorbell('outbox');
  end if;
  return v_stored;
end
$$;
-- The way in for every language: select whizbang.store_outbox_messages('[{"messageType": …, "destination": …, "payload": …}]').
-- Members: messageType, destination, payload (required); messageId (a UUIDv7 is made when it is missing), streamId (UUID),
-- streamKey (the text that the stream id was made of), scheduledFor, headers (an object of strings), correlationId,
-- causationId, traceparent. One object may stand for an array of one. A payload keeps its text; one with \u0000 or half a
-- surrogate pair, which PostgreSQL refuses to take apart, can only be stored through the arrays above.
create or replace function whizbang.store_outbox_messages(p_messages json) returns integer
language plpgsql volatile
as $$
declare
  v_messages json := case json_typeof(p_messages) when 'array' then p_messages else json_build_array(p_messages) end;
  v_problem text;
begin
  select format('message %s: %s', p.position, p.problem) into v_problem
  from (
    select m.position, case
             when json_typeof(m.value) is distinct from 'object' then 'is not an object'
             when coalesce(m.value ->> 'messageType', '') = '' then 'messageType is missing'
             when coalesce(m.value ->> 'destination', '') = '' then 'destination is missing'
             when m.value -> 'payload' is null then 'payload is missing'
             -- The stream's id orders the messages here, the key at the broker; UUIDv5 is not to be had in SQL.
             when m.value ->> 'streamKey' is not null and m.value ->> 'streamId' is null
               then 'streamKey is given without streamId'
             when json_typeof(m.value -> 'headers') = 'object' then (
               select 'headers must be an object of strings'
               from json_each(m.value -> 'headers') h where json_typeof(h.value) <> 'string' limit 1)
             when json_typeof(m.value -> 'headers') <> 'null' then 'headers must be an object of strings'
           end as problem
    from json_array_elements(v_messages) with ordinality as m (value, position)
  ) p
  where p.problem is not null
  order by p.position limit 1;
  if v_problem is not null then
    raise exception 'store_outbox_messages: %', v_problem using errcode = 'invalid_parameter_value';
  end if;
  return (
    select whizbang.store_outbox_messages(
      array_agg(coalesce((m.value ->> 'messageId')::uuid, whizbang.uuid_v7()) order by m.position),
      array_agg(m.value ->> 'destination' order by m.position),
      array_agg(m.value ->> 'messageType' order by m.position),
      array_agg((m.value -> 'payload')::text order by m.position),
      array_agg(json_strip_nulls(json_build_object(
        'streamKey', m.value ->> 'streamKey', 'headers', m.value -> 'headers',
        'correlationId', m.value ->> 'correlationId', 'causationId', m.value ->> 'causationId',
        'traceparent', m.value ->> 'traceparent'))::text order by m.position),
      array_agg((m.value ->> 'streamId')::uuid order by m.position),
      array_agg((m.value ->> 'scheduledFor')::timestamptz order by m.position))
    from json_array_elements(v_messages) with ordinality as m (value, position));
end
$$;
