-- How much waits and since when. Counting stops at 10,000 and reads only the claim index, so that a dashboard that asks
-- every few seconds costs the same whatever waits.
create or replace function whizbang.backlog_statistics()
returns table (category text, pending integer, oldest_age_ms double precision)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return query
  select 'outbox', (select count(*) from (
             select 1 from whizbang.wh_outbox o
             where o.processed_at is null and o.scheduled_for is null and not o.blocked
             order by o.sequence limit 10000) w)::integer,
         coalesce(extract(epoch from clock_timestamp() - (
             select nullif(nullif(o.created_at, 'infinity'), '-infinity') from whizbang.wh_outbox o
             where o.processed_at is null and o.scheduled_for is null and not o.blocked
             order by o.sequence limit 1))::double precision * 1000, 0);
  return query
  select 'inbox', (select count(*) from (
             select 1 from whizbang.wh_inbox i
             where i.processed_at is null and i.scheduled_for is null and not i.blocked
             order by i.sequence limit 10000) w)::integer,
         coalesce(extract(epoch from clock_timestamp() - (
             select nullif(nullif(i.received_at, 'infinity'), '-infinity') from whizbang.wh_inbox i
             where i.processed_at is null and i.scheduled_for is null and not i.blocked
             order by i.sequence limit 1))::double precision * 1000, 0);
end
$$;
