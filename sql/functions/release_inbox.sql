-- Gives back rows that were claimed and never tried: the lease is cleared, the status stays, and so that attempts counts
-- tries and nothing else, the attempt is given back. Fenced like a completion. Returns the ids no longer held.
-- For `= any (array[…])` in joins see complete_outbox_published.
create or replace function whizbang.release_inbox(p_instance_id uuid, p_message_ids uuid[], p_attempts integer[])
returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_done uuid[];
begin
  with done as (
    update whizbang.wh_inbox o
    set instance_id = null, lease_expiry = null, attempts = o.attempts - 1
    from unnest(p_message_ids, p_attempts) as d (message_id, attempts)
    where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
      and o.processed_at is null
    returning o.message_id
  )
  select array_agg(message_id) into v_done from done;
  if coalesce(cardinality(v_done), 0) = cardinality(p_message_ids) then
    return null;
  end if;
  return array(select unnest(p_message_ids) except select unnest(v_done));
end
$$;
