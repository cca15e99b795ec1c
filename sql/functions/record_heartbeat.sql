-- Registers an instance or renews its entry, forgets instances that have been silent for p_stale_seconds, and with them
-- the doorbells that they left armed. A null p_stale_seconds forgets nobody. Returns the forgotten ones (null for none); release_dead_instances() ends their leases.
create or replace function whizbang.record_heartbeat(
  p_instance_id uuid, p_service_name text, p_host_name text, p_process_id integer, p_metadata json default null,
  p_stale_seconds double precision default 35
) returns uuid[]
language plpgsql volatile
as $$
declare
  v_dead uuid[];
begin
  insert into whizbang.wh_service_instances as i (instance_id, service_name, host_name, process_id, metadata)
  values (p_instance_id, p_service_name, p_host_name, p_process_id, p_metadata)
  on conflict (instance_id) do update set last_heartbeat_at = clock_timestamp(), metadata = coalesce(excluded.metadata, i.metadata);
  -- SKIP LOCKED: two that come back from a long silence together would delete each other's entry, and deadlock.
  with dead as (
    delete from whizbang.wh_service_instances
    where instance_id in (
      select i.instance_id from whizbang.wh_service_instances i
      where i.last_heartbeat_at < clock_timestamp() - p_stale_seconds * interval '1 second'
      for update skip locked)
    returning instance_id
  )
  select array_agg(instance_id) into v_dead from dead;
  delete from whizbang.wh_doorbells d
  where not exists (select 1 from whizbang.wh_service_instances i where i.instance_id = d.instance_id);
  return v_dead;
end
$$;
