-- Registers an instance or renews its entry, forgets instances that have been silent for p_stale_seconds, and with them
-- the doorbells that they left armed.
create or replace function whizbang.record_heartbeat(
  p_instance_id uuid, p_service_name text, p_host_name text, p_process_id integer, p_metadata json default null,
  p_stale_seconds double precision default 120
) returns void
language plpgsql volatile
as $$
begin
  insert into whizbang.wh_service_instances as i (instance_id, service_name, host_name, process_id, metadata)
  values (p_instance_id, p_service_name, p_host_name, p_process_id, p_metadata)
  on conflict (instance_id) do update set last_heartbeat_at = clock_timestamp(), metadata = coalesce(excluded.metadata, i.metadata);
  -- SKIP LOCKED: two that come back from a long silence together would delete each other's entry, and deadlock.
  delete from whizbang.wh_service_instances
  where instance_id in (
    select i.instance_id from whizbang.wh_service_instances i
    where i.last_heartbeat_at < clock_timestamp() - p_stale_seconds * interval '1 second'
    for update skip locked);
  delete from whizbang.wh_doorbells d
  where not exists (select 1 from whizbang.wh_service_instances i where i.instance_id = d.instance_id);
end
$$;
