-- Ends the leases of instances that have stopped beating, without waiting for them to run out. Called by the one instance
-- whose heartbeat forgot them. The attempt is kept: it was a try, as far as anybody can tell. Returns how many leases were
-- ended.
--
-- No index holds leases (a claim would not be HOT). Leased rows are never blocked and never wait for a time, so that the
-- two indexes that claims read hold them all: what waits for next week is not looked at.
create or replace function whizbang.release_dead_instances(p_instance_ids uuid[]) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_outbox integer;
  v_inbox integer;
begin
  update whizbang.wh_outbox o set lease_expiry = '-infinity'
  where o.message_id = any (array(
    (select r.message_id from whizbang.wh_outbox r
     where r.processed_at is null and r.scheduled_for is null and not r.blocked
       and r.instance_id = any (p_instance_ids) and r.lease_expiry > v_now)
    union all
    (select r.message_id from whizbang.wh_outbox r
     where r.processed_at is null and r.scheduled_for is not null and r.scheduled_for <= v_now and not r.blocked
       and r.instance_id = any (p_instance_ids) and r.lease_expiry > v_now)))
    and o.instance_id = any (p_instance_ids);
  get diagnostics v_outbox = row_count;
  update whizbang.wh_inbox i set lease_expiry = '-infinity'
  where i.message_id = any (array(
    (select r.message_id from whizbang.wh_inbox r
     where r.processed_at is null and r.scheduled_for is null and not r.blocked
       and r.instance_id = any (p_instance_ids) and r.lease_expiry > v_now)
    union all
    (select r.message_id from whizbang.wh_inbox r
     where r.processed_at is null and r.scheduled_for is not null and r.scheduled_for <= v_now and not r.blocked
       and r.instance_id = any (p_instance_ids) and r.lease_expiry > v_now)))
    and i.instance_id = any (p_instance_ids);
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
