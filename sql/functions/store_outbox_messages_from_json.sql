-- The way in for every language: select whizbang.store_outbox_messages('[{"messageType": …, "destination": …, "payload": …}]').
-- Members: messageType, destination, payload (required); messageId (a UUIDv7 is made when it is missing), streamId (UUID),
-- streamKey (the text that the stream id was made of), scheduledFor, headers (an object of strings), correlationId,
-- causationId, traceparent. One object may stand for an array of one.
create or replace function whizbang.store_outbox_messages(p_messages json) returns integer
language plpgsql volatile
as $$
declare
  v_messages json := case json_typeof(p_messages) when 'array' then p_messages else json_build_array(p_messages) end;
  v_problem text;
begin
  select format('message %s: %s', m.position, case
           when json_typeof(m.value) <> 'object' then 'is not an object'
           when coalesce(m.value ->> 'messageType', '') = '' then 'messageType is missing'
           when coalesce(m.value ->> 'destination', '') = '' then 'destination is missing'
           when m.value -> 'payload' is null then 'payload is missing' end)
    into v_problem
  from json_array_elements(v_messages) with ordinality as m (value, position)
  where json_typeof(m.value) <> 'object' or coalesce(m.value ->> 'messageType', '') = ''
     or coalesce(m.value ->> 'destination', '') = '' or m.value -> 'payload' is null
  order by m.position limit 1;
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
