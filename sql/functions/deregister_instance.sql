-- Forgets an instance on its clean stop. It has released its rows by then: finding them here would mean reading the
-- whole backlog. Wakes the sleepers: what it has put down, and what waited behind rows in its hands, is theirs now.
create or replace function whizbang.deregister_instance(p_instance_id uuid) returns void
language plpgsql volatile
as $$
begin
  delete from whizbang.wh_doorbells where instance_id = p_instance_id;
  delete from whizbang.wh_service_instances where instance_id = p_instance_id;
  perform whizbang.ring_doorbell('outbox');
  perform whizbang.ring_doorbell('inbox');
end
$$;
