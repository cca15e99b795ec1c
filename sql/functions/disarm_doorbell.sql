-- Called by an instance that woke up: it and everybody who armed before it have been rung. Taking the older rows along
-- keeps a process that died in its sleep from making every producer ring for ever.
create or replace function whizbang.disarm_doorbell(p_channel text, p_instance_id uuid) returns void
language sql volatile
as $$
  delete from whizbang.wh_doorbells
  where channel = p_channel
    and armed_at <= (select own.armed_at from whizbang.wh_doorbells own
                     where own.channel = p_channel and own.instance_id = p_instance_id);
$$;
