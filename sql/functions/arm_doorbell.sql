-- Says that an instance is about to sleep. To be called in a transaction of its own: a writer sees it from its commit on.
create or replace function whizbang.arm_doorbell(p_channel text, p_instance_id uuid) returns void
language sql volatile
as $$
  insert into whizbang.wh_doorbells (channel, instance_id, armed_at) values (p_channel, p_instance_id, clock_timestamp())
  on conflict (channel, instance_id) do update set armed_at = excluded.armed_at;
$$;
