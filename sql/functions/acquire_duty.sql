-- Elects the instance that does a service's common work: the duty is its own until the lease ends, and renewed by asking
-- again. A row, not a session's advisory lock: it works through a pooler, and its holder can be seen.
create or replace function whizbang.acquire_duty(p_duty text, p_instance_id uuid, p_lease_seconds double precision) returns boolean
language plpgsql volatile
as $$
begin
  insert into whizbang.wh_duties as d (duty, instance_id, lease_expiry)
  values (p_duty, p_instance_id, clock_timestamp() + p_lease_seconds * interval '1 second')
  on conflict (duty) do update
  set instance_id = excluded.instance_id, lease_expiry = excluded.lease_expiry
  where d.instance_id = excluded.instance_id or d.lease_expiry < clock_timestamp();
  return found;
end
$$;
