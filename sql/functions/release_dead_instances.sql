-- Ends the leases of instances that have stopped beating, without waiting for them to run out. Reads the rows that may be
-- claimed, which is why only the elected instance does it, and only when an instance has died. The attempt is kept: it
-- was a try, as far as anybody can tell. Returns how many leases were ended.
create or replace function whizbang.release_dead_instances(p_instance_ids uuid[]) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_outbox integer;
  v_inbox integer;
begin
  update whizbang.wh_outbox o set lease_expiry = '-infinity'
  where o.processed_at is null and o.instance_id = any (p_instance_ids) and o.lease_expiry > clock_timestamp();
  get diagnostics v_outbox = row_count;
  update whizbang.wh_inbox i set lease_expiry = '-infinity'
  where i.processed_at is null and i.instance_id = any (p_instance_ids) and i.lease_expiry > clock_timestamp();
  get diagnostics v_inbox = row_count;
  if v_outbox > 0 then
    perform whizbang.ring_doorbell('outbox');
  end if;
  if v_inbox > 0 then
    perform whizbang.ring_doorbell('inbox');
  end if;
  return v_outbox + v_inbox;
end
$$;
