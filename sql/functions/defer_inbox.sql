-- Puts down rows of a stream of which this instance has enough in hand: released like untried rows, and kept out of the
-- way of claims behind the row in hand that precedes them, so that one long stream cannot fill the hands of an instance.
-- The preceding row is locked FOR KEY SHARE: who deletes it waits for us, and then sees and frees them. Where it is gone
-- or going, the rows are merely released. Returns the ids no longer held.
-- For `= any (array[…])` in joins see complete_outbox_published.
create or replace function whizbang.defer_inbox(p_instance_id uuid, p_message_ids uuid[], p_attempts integer[])
returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_done uuid[];
  v_streams uuid[];
begin
  select array_agg(h.stream_id) into v_streams
  from (
    select o.stream_id
    from whizbang.wh_inbox o
    where o.message_id = any (array(
      select p.message_id
      from (select i.stream_id, min(i.sequence) as sequence from whizbang.wh_inbox i
            where i.message_id = any (p_message_ids) and i.stream_id is not null group by i.stream_id) f
      cross join lateral (
        select e.message_id from whizbang.wh_inbox e
        where e.stream_id = f.stream_id and e.sequence < f.sequence and e.processed_at is null
          and e.instance_id = p_instance_id
        order by e.sequence desc limit 1
      ) p))
      -- Looked at again under the lock: it may have been settled since this statement began.
      and o.processed_at is null and o.instance_id = p_instance_id
    for key share skip locked
  ) h;
  with done as (
    update whizbang.wh_inbox o
    set instance_id = null, lease_expiry = null, attempts = o.attempts - 1,
        blocked = coalesce(o.stream_id = any (v_streams), false)
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
