-- Gives the duty up and wakes the others, one of which takes it over at once. Always notifies: those who wait for the duty
-- arm no doorbell, and it is one notification in the life of a process.
create or replace function whizbang.release_duty(p_duty text, p_instance_id uuid) returns void
language plpgsql volatile
as $$
begin
  delete from whizbang.wh_duties where duty = p_duty and instance_id = p_instance_id;
  if found then
    perform pg_notify(whizbang.wake_channel('deadletter'), '');
  end if;
end
$$;
