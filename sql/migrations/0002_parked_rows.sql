-- Parked rows by themselves: one that also waits behind another row of its stream is in no index that claims read, and was
-- seen neither by the sentinel nor by service_status until that row had gone. Claims change none of these columns.
create index idx_outbox_parked on whizbang.wh_outbox (sequence) where processed_at is null and scheduled_for = 'infinity';
create index idx_inbox_parked on whizbang.wh_inbox (sequence) where processed_at is null and scheduled_for = 'infinity';
