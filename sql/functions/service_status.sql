-- How a service stands, in rows of category, name and value. Counts stop at 5,000 and read only the partial indexes, so
-- that the answer takes as long whatever waits. What is due counts as pending whether it is tried for the first time or
-- again; what waits for its time counts as scheduled.
create or replace function whizbang.service_status() returns table (category text, name text, value double precision)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  return query
  with due as materialized (
    (select o.lease_expiry, o.created_at as since from whizbang.wh_outbox o
     where o.processed_at is null and o.scheduled_for is null and not o.blocked order by o.sequence limit 5000)
    union all
    (select o.lease_expiry, o.created_at from whizbang.wh_outbox o
     where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for <= v_now
     order by o.scheduled_for, o.sequence limit 5000)
  ),
  summary as (
    select least(count(*), 5000) as pending,
           least(count(*) filter (where d.lease_expiry >= v_now), 5000) as leased,
           coalesce(greatest(extract(epoch from v_now - min(d.since) filter (where isfinite(d.since))), 0) * 1000, 0) as oldest_age_ms
    from due d
  )
  select 'outbox', s.name, s.value::double precision
  from (
    select 'pending' as name, m.pending::numeric as value from summary m
    union all
    select 'leased', m.leased from summary m
    union all
    select 'oldest_age_ms', m.oldest_age_ms from summary m
    union all
    select 'scheduled', (select count(*) from (
             select 1 from whizbang.wh_outbox o
             where o.processed_at is null and o.scheduled_for is not null and not o.blocked
               and o.scheduled_for > v_now and o.scheduled_for < 'infinity'
             order by o.scheduled_for, o.sequence limit 5000) w)
    union all
    select 'parked', (select count(*) from (
             select 1 from whizbang.wh_outbox o
             where o.processed_at is null and o.scheduled_for = 'infinity'
             order by o.sequence limit 5000) w)
    union all
    select 'blocked_streams', (
      with recursive blocked_stream as (
        (select b.stream_id, 1 as position from whizbang.wh_outbox b where b.blocked order by b.stream_id, b.sequence limit 1)
        union all
        select n.stream_id, s.position + 1
        from blocked_stream s
        cross join lateral (
          select b.stream_id from whizbang.wh_outbox b where b.blocked and b.stream_id > s.stream_id
          order by b.stream_id, b.sequence limit 1) n
        where s.position < 5000
      )
      select count(*) from blocked_stream)
  ) s;
  return query
  with due as materialized (
    (select o.lease_expiry, o.received_at as since from whizbang.wh_inbox o
     where o.processed_at is null and o.scheduled_for is null and not o.blocked order by o.sequence limit 5000)
    union all
    (select o.lease_expiry, o.received_at from whizbang.wh_inbox o
     where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for <= v_now
     order by o.scheduled_for, o.sequence limit 5000)
  ),
  summary as (
    select least(count(*), 5000) as pending,
           least(count(*) filter (where d.lease_expiry >= v_now), 5000) as leased,
           coalesce(greatest(extract(epoch from v_now - min(d.since) filter (where isfinite(d.since))), 0) * 1000, 0) as oldest_age_ms
    from due d
  )
  select 'inbox', s.name, s.value::double precision
  from (
    select 'pending' as name, m.pending::numeric as value from summary m
    union all
    select 'leased', m.leased from summary m
    union all
    select 'oldest_age_ms', m.oldest_age_ms from summary m
    union all
    select 'scheduled', (select count(*) from (
             select 1 from whizbang.wh_inbox o
             where o.processed_at is null and o.scheduled_for is not null and not o.blocked
               and o.scheduled_for > v_now and o.scheduled_for < 'infinity'
             order by o.scheduled_for, o.sequence limit 5000) w)
    union all
    select 'parked', (select count(*) from (
             select 1 from whizbang.wh_inbox o
             where o.processed_at is null and o.scheduled_for = 'infinity'
             order by o.sequence limit 5000) w)
    union all
    select 'blocked_streams', (
      with recursive blocked_stream as (
        (select b.stream_id, 1 as position from whizbang.wh_inbox b where b.blocked order by b.stream_id, b.sequence limit 1)
        union all
        select n.stream_id, s.position + 1
        from blocked_stream s
        cross join lateral (
          select b.stream_id from whizbang.wh_inbox b where b.blocked and b.stream_id > s.stream_id
          order by b.stream_id, b.sequence limit 1) n
        where s.position < 5000
      )
      select count(*) from blocked_stream)
  ) s;
  return query
  with recursive reason as (
    (select d.failure_reason from whizbang.wh_dead_letters d where d.recovered_at is null order by d.failure_reason limit 1)
    union all
    select n.failure_reason
    from reason r
    cross join lateral (
      select d.failure_reason from whizbang.wh_dead_letters d
      where d.recovered_at is null and d.failure_reason > r.failure_reason order by d.failure_reason limit 1) n
  )
  select 'dead', r.failure_reason::text, (select count(*) from (
           select 1 from whizbang.wh_dead_letters d
           where d.recovered_at is null and d.failure_reason = r.failure_reason limit 5000) w)::double precision
  from reason r;
  return query
  select 'instances', 'alive', count(*)::double precision
  from whizbang.wh_service_instances i where i.last_heartbeat_at > v_now - interval '35 seconds';
  return query
  select 'duties', d.duty, 1::double precision from whizbang.wh_duties d where d.lease_expiry > v_now;
end
$$;
