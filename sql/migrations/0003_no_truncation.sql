-- Vacuum cuts empty pages off the end of a table under a lock that nobody may share, and a table that is filled and emptied all the
-- time gets that often: deleting 500 messages then took 114 ms at the 95th percentile instead of 15. The pages are used again.
alter table whizbang.wh_outbox set (vacuum_truncate = false, toast.vacuum_truncate = false);
alter table whizbang.wh_inbox set (vacuum_truncate = false, toast.vacuum_truncate = false);
alter table whizbang.wh_message_deduplication set (vacuum_truncate = false);
