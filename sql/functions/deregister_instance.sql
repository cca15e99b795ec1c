-- Forgets an instance on its clean stop. It has released its rows by then: finding them here would mean reading the
-- whole backlog.
create or replace function whizbang.deregister_instance(p_instance_id uuid) returns void
language sql volatile
as $$
  delete from whizbang.wh_doorbells where instance_id = p_instance_id;
  delete from whizbang.wh_service_instances where instance_id = p_instance_id;
$$;
