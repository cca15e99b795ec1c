-- How a service stands, in rows of category, name and value. Counts stop at 10,000 and read only the partial indexes, so
-- that the answer takes as long whatever waits.
create or replace function whizbang.service_status() returns table (category text, name text, value double precision)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return query
  select 'outbox', s.name, s.value::double precision
  from (
    select 'pending' as name, (select count(*) from (
             select 1 from whizbang.wh_outbox o
             where o.processed_at is null and o.scheduled_for is null and not o.blocked order by o.sequence limit 10000) w) as value
    union all
    select 'oldest_age_ms', coalesce(extract(epoch from clock_timestamp() - (
             select o.created_at from whizbang.wh_outbox o
             where o.processed_at is null and o.scheduled_for is null and not o.blocked order by o.sequence limit 1)) * 1000, 0)
    union all
    select 'leased', (select count(*) from (
             select o.lease_expiry from whizbang.wh_outbox o
             where o.processed_at is null and o.scheduled_for is null and not o.blocked order by o.sequence limit 10000) w
             where w.lease_expiry >= clock_timestamp())
    union all
    select 'scheduled', (select count(*) from (
             select 1 from whizbang.wh_outbox o
             where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for < 'infinity'
             order by o.scheduled_for, o.sequence limit 10000) w)
    union all
    select 'parked', (select count(*) from (
             select 1 from whizbang.wh_outbox o
             where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for = 'infinity'
             order by o.scheduled_for, o.sequence limit 10000) w)
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
        where s.position < 10000
      )
      select count(*) from blocked_stream)
  ) s;
  return query
  select 'inbox', s.name, s.value::double precision
  from (
    select 'pending' as name, (select count(*) from (
             select 1 from whizbang.wh_inbox o
             where o.processed_at is null and o.scheduled_for is null and not o.blocked order by o.sequence limit 10000) w) as value
    union all
    select 'oldest_age_ms', coalesce(extract(epoch from clock_timestamp() - (
             select o.received_at from whizbang.wh_inbox o
             where o.processed_at is null and o.scheduled_for is null and not o.blocked order by o.sequence limit 1)) * 1000, 0)
    union all
    select 'leased', (select count(*) from (
             select o.lease_expiry from whizbang.wh_inbox o
             where o.processed_at is null and o.scheduled_for is null and not o.blocked order by o.sequence limit 10000) w
             where w.lease_expiry >= clock_timestamp())
    union all
    select 'scheduled', (select count(*) from (
             select 1 from whizbang.wh_inbox o
             where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for < 'infinity'
             order by o.scheduled_for, o.sequence limit 10000) w)
    union all
    select 'parked', (select count(*) from (
             select 1 from whizbang.wh_inbox o
             where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for = 'infinity'
             order by o.scheduled_for, o.sequence limit 10000) w)
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
        where s.position < 10000
      )
      select count(*) from blocked_stream)
  ) s;
  return query
  select 'dead', d.failure_reason::text, count(*)::double precision
  from whizbang.wh_dead_letters d where d.recovered_at is null group by d.failure_reason;
  return query
  select 'instances', 'alive', count(*)::double precision
  from whizbang.wh_service_instances i where i.last_heartbeat_at > clock_timestamp() - interval '2 minutes';
end
$$;
