-- Stores received messages in the order of the arrays and wakes a sleeping dispatcher. A message whose id was received
-- before is left out. Returns the ids that were new.
--
-- The ids are entered in sorted order, so that two receivers with overlapping batches wait for each other instead of
-- deadlocking; the rows are inserted afterwards in the broker's order, which is what `sequence` records.
create or replace function whizbang.store_inbox_messages(
  p_message_ids uuid[], p_handler_names text[], p_message_types text[], p_destinations text[], p_event_data text[],
  p_metadata text[], p_stream_ids uuid[]
) returns setof uuid
language plpgsql volatile
as $$
declare
  v_new uuid[];
begin
  with fresh as (
    insert into whizbang.wh_message_deduplication (message_id)
    select distinct i.message_id from unnest(p_message_ids) as i (message_id) order by 1
    on conflict (message_id) do nothing
    returning message_id
  )
  select array_agg(message_id) into v_new from fresh;
  if v_new is null then
    return;
  end if;
  insert into whizbang.wh_inbox
    (message_id, handler_name, message_type, destination, event_data, metadata, stream_id, body_bytes)
  select m.message_id, m.handler_name, m.message_type, m.destination, m.event_data::json, m.metadata::json, m.stream_id,
         octet_length(m.event_data)
  from unnest(p_message_ids, p_handler_names, p_message_types, p_destinations, p_event_data, p_metadata, p_stream_ids)
       with ordinality as m (message_id, handler_name, message_type, destination, event_data, metadata, stream_id, position)
  where m.message_id in (select unnest(v_new))
  order by m.position
  on conflict (message_id) do nothing;
  perform whizbang.ring_doorbell('inbox');
  return query select unnest(v_new);
end
$$;
