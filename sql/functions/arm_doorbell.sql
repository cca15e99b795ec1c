-- Says that an instance is about to sleep. Returns the snapshot's xmax: once pg_snapshot_xmin has reached it, every
-- transaction that may have seen the doorbell unarmed has ended. To be called in a transaction of its own, and the
-- snapshot to be taken after its commit, by snapshot_horizon().
create or replace function whizbang.arm_doorbell(p_channel text, p_instance_id uuid) returns void
language sql volatile
as $$
  insert into whizbang.wh_doorbells (channel, instance_id, armed_at) values (p_channel, p_instance_id, clock_timestamp())
  on conflict (channel, instance_id) do update set armed_at = excluded.armed_at;
$$;
