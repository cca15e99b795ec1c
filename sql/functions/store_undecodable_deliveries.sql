-- Keeps deliveries that could not be read, bytes and headers, in the dead letters, so that acknowledging them loses nothing.
-- The source id is derived from the content by the caller: a redelivery finds its row and adds none.
create or replace function whizbang.store_undecodable_deliveries(
  p_source_ids uuid[], p_message_types text[], p_destinations text[], p_bodies bytea[], p_metadata text[], p_errors text[],
  p_failure_reason integer, p_generation text, p_instance_id uuid
) returns integer
language plpgsql volatile
as $$
declare
  v_stored integer;
begin
  with stored as (
    insert into whizbang.wh_dead_letters
      (dead_letter_id, source_table, source_id, message_type, destination, raw_body, metadata, failure_reason,
       last_failure_reason, error_text, attempts_when_dlq, generation, dead_lettered_by)
    select whizbang.uuid_v7(), 'wh_inbox', d.source_id, d.message_type, d.destination, d.body, d.metadata::json, p_failure_reason,
           p_failure_reason, d.error, 0, p_generation, p_instance_id
    from unnest(p_source_ids, p_message_types, p_destinations, p_bodies, p_metadata, p_errors)
         as d (source_id, message_type, destination, body, metadata, error)
    on conflict (source_table, source_id) do nothing
    returning 1
  )
  select count(*) into v_stored from stored;
  if v_stored > 0 then
    perform whizbang.ring_doorbell('deadletter');
  end if;
  return v_stored;
end
$$;
