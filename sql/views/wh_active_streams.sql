-- Which instance holds which stream right now, derived from the leases: nobody owns a stream beyond them.
create or replace view whizbang.wh_active_streams as
select held.stream_id, held.category, held.instance_id as assigned_instance_id,
       max(held.lease_expiry) as lease_expiry, count(*)::integer as leased_rows, min(held.sequence) as first_sequence
from (
  select stream_id, 'outbox' as category, instance_id, lease_expiry, sequence
  from whizbang.wh_outbox
  where processed_at is null and stream_id is not null and lease_expiry >= now()
  union all
  select stream_id, 'inbox', instance_id, lease_expiry, sequence
  from whizbang.wh_inbox
  where processed_at is null and stream_id is not null and lease_expiry >= now()
) held
group by held.stream_id, held.category, held.instance_id;
