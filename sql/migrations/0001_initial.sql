-- The tables of Whizbang. `whizbang.` stands for the schema that migrate() is given; every name is quoted there.
--
-- Two rules shape the indexes:
--   1. A claim changes instance_id, lease_expiry and attempts. None of them may occur in an index, as key or as
--      predicate, else the update is not HOT and a claim costs seven times the WAL (1,655 against 250 bytes a row).
--      fillfactor 45 leaves the room on the page that a HOT update needs: the claimed version is 24 bytes longer than
--      the stored one, so that with 50 every eighth of 2,000 narrow rows found its page full.
--   2. What cannot be claimed must not be scanned: rows that wait for a time are in the due index only, rows that wait
--      behind another row of their stream are in none of the two that claims read (see `blocked`).

create table whizbang.wh_outbox (
  message_id       uuid primary key,
  sequence         bigint generated always as identity,
  destination      varchar(500),
  message_type     varchar(500) not null,
  envelope_type    varchar(500),
  event_data       json not null,
  metadata         json not null default '{}',
  scope            json,
  stream_id        uuid check (stream_id <> '00000000-0000-0000-0000-000000000000'),
  is_event         boolean not null default false,
  flags            integer not null default 0,
  status           integer not null default 1,
  attempts         integer not null default 0,
  error            text,
  failure_reason   integer not null default 99,
  instance_id      uuid,
  lease_expiry     timestamptz,
  scheduled_for    timestamptz,
  -- Waits behind an earlier row of its stream that is not moving. Set lazily by claims, cleared when that row goes.
  blocked          boolean not null default false,
  -- Failed under the policy `continue`: later rows of its stream may pass it while it waits.
  passable         boolean not null default false,
  -- A stored flag instead of `attempts` itself keeps the sentinel's index out of the way of claims (rule 1).
  past_sentinel    boolean generated always as (attempts > 5) stored,
  body_bytes       integer not null default 0,
  created_at       timestamptz not null default now(),
  published_at     timestamptz,
  processed_at     timestamptz
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5);

comment on table whizbang.wh_outbox is 'Messages to publish, in the transaction that caused them. Deleted once the broker has confirmed them.';
comment on column whizbang.wh_outbox.sequence is 'Order inside a stream.';
comment on column whizbang.wh_outbox.status is 'MessageProcessingStatus bits: 1 stored, 2 event stored, 4 published, 32768 failed.';
comment on column whizbang.wh_outbox.attempts is 'How often the row was claimed and tried.';
comment on column whizbang.wh_outbox.scheduled_for is 'Not before this time; null = now; infinity = parked, outside the order of its stream.';
comment on column whizbang.wh_outbox.blocked is 'Waits behind an earlier row of its stream; claims do not look at it.';

create index idx_outbox_claim on whizbang.wh_outbox (sequence)
  where processed_at is null and scheduled_for is null and not blocked;
create index idx_outbox_due on whizbang.wh_outbox (scheduled_for, sequence)
  where processed_at is null and scheduled_for is not null and not blocked;
create index idx_outbox_stream on whizbang.wh_outbox (stream_id, sequence)
  where processed_at is null and stream_id is not null;
create index idx_outbox_blocked on whizbang.wh_outbox (stream_id, sequence) where blocked;
-- For the purge of kept rows; empty unless completed rows are kept.
create index idx_outbox_processed on whizbang.wh_outbox (processed_at) where processed_at is not null;
create index idx_outbox_stuck_sentinel on whizbang.wh_outbox (sequence)
  where processed_at is null and past_sentinel;

create table whizbang.wh_inbox (
  message_id       uuid primary key,
  sequence         bigint generated always as identity,
  handler_name     varchar(500) not null,
  message_type     varchar(500) not null,
  destination      varchar(500),
  event_data       json not null,
  metadata         json not null default '{}',
  scope            json,
  stream_id        uuid check (stream_id <> '00000000-0000-0000-0000-000000000000'),
  is_event         boolean not null default false,
  flags            integer not null default 0,
  status           integer not null default 1,
  attempts         integer not null default 0,
  error            text,
  failure_reason   integer not null default 99,
  instance_id      uuid,
  lease_expiry     timestamptz,
  scheduled_for    timestamptz,
  blocked          boolean not null default false,
  passable         boolean not null default false,
  past_sentinel    boolean generated always as (attempts > 5) stored,
  body_bytes       integer not null default 0,
  received_at      timestamptz not null default now(),
  processed_at     timestamptz
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5);

comment on table whizbang.wh_inbox is 'Messages received and not yet handled. Deleted in the transaction of their handler.';
comment on column whizbang.wh_inbox.sequence is 'Order inside a stream: the order in which the broker delivered.';

create index idx_inbox_claim on whizbang.wh_inbox (sequence)
  where processed_at is null and scheduled_for is null and not blocked;
create index idx_inbox_due on whizbang.wh_inbox (scheduled_for, sequence)
  where processed_at is null and scheduled_for is not null and not blocked;
create index idx_inbox_stream on whizbang.wh_inbox (stream_id, sequence)
  where processed_at is null and stream_id is not null;
create index idx_inbox_blocked on whizbang.wh_inbox (stream_id, sequence) where blocked;
create index idx_inbox_processed on whizbang.wh_inbox (processed_at) where processed_at is not null;
create index idx_inbox_stuck_sentinel on whizbang.wh_inbox (sequence)
  where processed_at is null and past_sentinel;

-- Ids outlive their inbox row, so that a broker that delivers again a week later is still answered with "seen".
create table whizbang.wh_message_deduplication (
  message_id    uuid primary key,
  first_seen_at timestamptz not null default now()
);
create index idx_message_deduplication_first_seen on whizbang.wh_message_deduplication (first_seen_at);

create table whizbang.wh_service_instances (
  instance_id       uuid primary key,
  service_name      varchar(200) not null,
  host_name         varchar(200) not null,
  process_id        integer not null,
  started_at        timestamptz not null default now(),
  last_heartbeat_at timestamptz not null default now(),
  metadata          json
);
create index idx_service_instances_heartbeat on whizbang.wh_service_instances (last_heartbeat_at);

-- Who sleeps. A row says: this instance has no work of this kind and wants to be woken. store_* looks here.
create table whizbang.wh_doorbells (
  channel     varchar(20) not null check (channel in ('outbox', 'inbox', 'deadletter')),
  instance_id uuid not null,
  armed_at    timestamptz not null,
  primary key (channel, instance_id)
) with (fillfactor = 50);

create table whizbang.wh_dead_letters (
  dead_letter_id            uuid primary key,
  source_table              text not null check (source_table in ('wh_outbox', 'wh_inbox')),
  source_id                 uuid not null,
  stream_id                 uuid,
  message_type              text not null,
  destination               text,
  handler_name              text,
  envelope_type             text,
  envelope                  json,
  -- The bytes of a delivery that could not be decoded into an envelope.
  raw_body                  bytea,
  metadata                  json not null default '{}',
  scope                     json,
  is_event                  boolean not null default false,
  flags                     integer not null default 0,
  status                    integer not null default 1,
  source_sequence           bigint,
  source_created_at         timestamptz,
  failure_reason            integer not null,
  last_failure_reason       integer,
  error_text                text,
  attempts_when_dlq         integer not null,
  body_bytes                integer not null default 0,
  -- Policy `park`: the rest of its stream follows it here, until it is recovered.
  parks_stream              boolean not null default false,
  dead_lettered_at          timestamptz not null default now(),
  dead_lettered_by          uuid,
  recovery_status           integer not null default 0,
  recovery_attempts         integer not null default 0,
  -- Tries beyond the budget, given by an operator's retry or a new generation.
  granted_attempts          integer not null default 0,
  last_recovery_at          timestamptz,
  next_recovery_at          timestamptz,
  recovered_at              timestamptz,
  generation                text not null,
  retried_on_generations    text[] not null default '{}',
  operator_disposition      integer not null default 0,
  operator_notes            text,
  operator_actor            text,
  error_fingerprint         varchar(16),
  error_fingerprint_version smallint,
  unique (source_table, source_id),
  check (envelope is not null or raw_body is not null)
);
comment on table whizbang.wh_dead_letters is 'Messages that were given up, with the reason and all that is needed to bring them back whole.';
create index idx_dead_letters_due on whizbang.wh_dead_letters (dead_lettered_at, source_sequence)
  where recovered_at is null and recovery_status in (0, 1);
create index idx_dead_letters_parking on whizbang.wh_dead_letters (stream_id) where parks_stream;
create index idx_dead_letters_stream on whizbang.wh_dead_letters (stream_id, source_sequence);
create index idx_dead_letters_source on whizbang.wh_dead_letters (source_id);
create index idx_dead_letters_reason on whizbang.wh_dead_letters (failure_reason, recovery_status) where recovered_at is null;
create index idx_dead_letters_fingerprint on whizbang.wh_dead_letters (error_fingerprint);
create index idx_dead_letters_generation on whizbang.wh_dead_letters (generation);

-- Work that one instance does for all of a service: who does it, and until when it may be taken for granted.
create table whizbang.wh_duties (
  duty         text primary key,
  instance_id  uuid not null,
  lease_expiry timestamptz not null
);
