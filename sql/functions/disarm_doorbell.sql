-- Called by an instance that woke up or stops. It takes its own row only: it may have woken because something became due,
-- and then nobody has rung the others. The row of a process that died in its sleep goes with the next heartbeats.
create or replace function whizbang.disarm_doorbell(p_channel text, p_instance_id uuid) returns void
language sql volatile
as $$
  delete from whizbang.wh_doorbells where channel = p_channel and instance_id = p_instance_id;
$$;
