create or replace function whizbang.release_duty(p_duty text, p_instance_id uuid) returns void
language sql volatile
as $$
  delete from whizbang.wh_duties where duty = p_duty and instance_id = p_instance_id;
$$;
