// generated from sql/ by scripts/generate-sql.mjs

export interface SqlFile {
  readonly kind: 'migration' | 'function' | 'view';
  /** The file's name without its extension. */
  readonly name: string;
  /** SHA-256 of the text, in hexadecimal. */
  readonly checksum: string;
  readonly text: string;
}

/** Migrations, then functions, then views, each by name. */
export const sqlFiles: readonly SqlFile[] = [
  {
    kind: 'migration',
    name: '0001_initial',
    checksum: 'bcd738cfd4a813e73b44a1209d0ec9abaff71e2bca8bbf0ff7c436fe8692a649',
    text: `-- The tables of Whizbang. \`whizbang.\` stands for the schema that migrate() is given; every name is quoted there.
--
-- Two rules shape the indexes:
--   1. A claim changes instance_id, lease_expiry and attempts. None of them may occur in an index, as key or as
--      predicate, else the update is not HOT and a claim costs seven times the WAL (1,655 against 250 bytes a row).
--      fillfactor 45 leaves the room on the page that a HOT update needs: the claimed version is 24 bytes longer than
--      the stored one, so that with 50 every eighth of 2,000 narrow rows found its page full.
--   2. What cannot be claimed must not be scanned: rows that wait for a time are in the due index only, rows that wait
--      behind another row of their stream are in none of the two that claims read (see \`blocked\`).

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
  -- Failed under the policy \`continue\`: later rows of its stream may pass it while it waits.
  passable         boolean not null default false,
  -- A stored flag instead of \`attempts\` itself keeps the sentinel's index out of the way of claims (rule 1).
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
  -- Policy \`park\`: the rest of its stream follows it here, until it is recovered.
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
`,
  },
  {
    kind: 'migration',
    name: '0002_parked_rows',
    checksum: '8dd8fb62f4cb9b501021732260638be629109326784a3e7b09a60dbb4e6199dd',
    text: `-- Parked rows by themselves: one that also waits behind another row of its stream is in no index that claims read, and was
-- seen neither by the sentinel nor by service_status until that row had gone. Claims change none of these columns.
create index idx_outbox_parked on whizbang.wh_outbox (sequence) where processed_at is null and scheduled_for = 'infinity';
create index idx_inbox_parked on whizbang.wh_inbox (sequence) where processed_at is null and scheduled_for = 'infinity';
`,
  },
  {
    kind: 'migration',
    name: '0003_no_truncation',
    checksum: '4e8125239b8effae3b97ef5fef7675eaa443362bbc2d0b82acf339bbc979fb81',
    text: `-- Vacuum cuts empty pages off the end of a table under a lock that nobody may share, and a table that is filled and emptied all the
-- time gets that often: deleting 500 messages then took 114 ms at the 95th percentile instead of 15. The pages are used again.
alter table whizbang.wh_outbox set (vacuum_truncate = false, toast.vacuum_truncate = false);
alter table whizbang.wh_inbox set (vacuum_truncate = false, toast.vacuum_truncate = false);
alter table whizbang.wh_message_deduplication set (vacuum_truncate = false);
`,
  },
  {
    kind: 'function',
    name: 'acquire_duty',
    checksum: '2c7ea50e9f224c4b5863bc0949bc769c13865ba063aff1ce595f06bfcdac56e1',
    text: `-- Elects the instance that does a service's common work: the duty is its own until the lease ends, and renewed by asking
-- again. A row, not a session's advisory lock: it works through a pooler, and its holder can be seen.
create or replace function whizbang.acquire_duty(p_duty text, p_instance_id uuid, p_lease_seconds double precision) returns boolean
language plpgsql volatile
as $$
begin
  insert into whizbang.wh_duties as d (duty, instance_id, lease_expiry)
  values (p_duty, p_instance_id, clock_timestamp() + p_lease_seconds * interval '1 second')
  on conflict (duty) do update
  set instance_id = excluded.instance_id, lease_expiry = excluded.lease_expiry
  where d.instance_id = excluded.instance_id or d.lease_expiry < clock_timestamp();
  return found;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'arm_doorbell',
    checksum: 'd9be93fe59c991fde25c3819be0d38ef13db690f985aa588c398e5cabd0c108d',
    text: `-- Says that an instance is about to sleep. To be called in a transaction of its own: a writer sees it from its commit on.
create or replace function whizbang.arm_doorbell(p_channel text, p_instance_id uuid) returns void
language sql volatile
as $$
  insert into whizbang.wh_doorbells (channel, instance_id, armed_at) values (p_channel, p_instance_id, clock_timestamp())
  on conflict (channel, instance_id) do update set armed_at = excluded.armed_at;
$$;
`,
  },
  {
    kind: 'function',
    name: 'backlog_statistics',
    checksum: '19a966fce2bad3e6deb92a783c5d1d733e65cd4621c856a2b057c5463a7f6c62',
    text: `-- How much waits and since when. Counting stops at 10,000 and reads only the claim index, so that a dashboard that asks
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
`,
  },
  {
    kind: 'function',
    name: 'claim_orphaned_inbox',
    checksum: '89dc6d5812c8e30c1c0491d72e9ba00f52732249ec66900aa3cab21166c7c6ef',
    text: `-- Claims up to p_limit rows (and about p_max_bytes of bodies, one row at the least) for an instance: unprocessed, due, and
-- unleased or with a lease that has run out, in sequence order. Sets the lease and adds one to attempts.
--
-- Prefix rule: of each stream only a contiguous prefix is taken. A row stays when an earlier unprocessed row of its stream
-- is neither in this claim nor leased by this very instance. Outside that order are parked rows (infinity) and rows that
-- failed under the policy \`continue\` (passable).
--
-- A follower whose head waits for its time is marked \`blocked\` on the way, and so leaves the indexes that claims read: a
-- million of them cost one visit each, not one per claim. With p_block_leased the same goes for followers of a head that
-- another instance holds; the caller asks for it when full scans keep finding nothing. The head is locked FOR KEY SHARE
-- while its followers are marked: who settles it waits for that, and then sees and frees them.
--
-- Suspects: a row whose lease has run out for the second time may be what kills its holders. It is claimed alone, and what
-- stands before it first, so that it cannot drag its neighbours to the cap.
--
-- Breakers: rows whose message type is in p_closed_keys are put off by p_closed_seconds instead of being claimed; where
-- p_closed_trial is true, one of them is let through.
--
-- Shares: where several instances are at it, each looks first at rows of its own share of the streams, by hash, so that they
-- do not stand in front of heads that others hold. A share is no property: who finds nothing in its own takes what there is,
-- and one claim of eight looks at everything, so that nobody's absence keeps a stream from going on. The prefix rule alone
-- decides what may be taken.
--
-- \`candidates\` tells how many rows were looked at; \`suspect\` that the row is on trial; \`parked\` that a dead letter of its
-- stream wants it to follow. The settings fix the plan, as do the arrays in place of joins: walk the partial index in
-- order, whatever the statistics say of the table at that moment.
create or replace function whizbang.claim_orphaned_inbox(
  p_instance_id uuid, p_limit integer, p_max_bytes bigint, p_lease_seconds double precision,
  p_block_leased boolean default false,
  p_closed_keys text[] default '{}', p_closed_seconds double precision[] default '{}', p_closed_trial boolean[] default '{}'
) returns table (
  message_id uuid, destination text, message_type text, event_data text, metadata text, stream_id uuid,
  attempts integer, sequence bigint, body_bytes integer, received_at timestamptz, error text, failure_reason integer,
  status integer, candidates integer, suspect boolean, parked boolean
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_shares integer := 1;
  v_share integer := 0;
begin
  if random() < 0.875 then
    select case when bool_or(i.instance_id = p_instance_id) then count(*) end, count(*) filter (where i.instance_id < p_instance_id)
    into v_shares, v_share
    from whizbang.wh_service_instances i
    where i.last_heartbeat_at > v_now - interval '35 seconds' and i.metadata ->> 'handles' is distinct from 'false';
    -- A claim under an id that is not known yet, or any more.
    v_shares := coalesce(v_shares, 1);
  end if;
  loop
    return query
    with ready as materialized (
      select o.message_id, o.sequence, o.stream_id, o.body_bytes, o.message_type as breaker_key,
             o.instance_id is not null and o.attempts >= 2 as suspect
      from whizbang.wh_inbox o
      where v_shares = 1
        and o.processed_at is null and o.scheduled_for is null and not o.blocked
        and (o.instance_id is null or o.lease_expiry < v_now)
      order by o.sequence
      limit p_limit
      for no key update skip locked
    ),
    shared as materialized (
      select o.message_id, o.sequence, o.stream_id, o.body_bytes, o.message_type as breaker_key,
             o.instance_id is not null and o.attempts >= 2 as suspect
      from whizbang.wh_inbox o
      where v_shares > 1
        and o.sequence = any (array(
          select w.sequence
          -- Bounded, so that the backlog of others is not read through.
          from (select r.sequence, coalesce(r.stream_id, r.message_id) as share_key
                from whizbang.wh_inbox r
                where r.processed_at is null and r.scheduled_for is null and not r.blocked
                  and (r.instance_id is null or r.lease_expiry < v_now)
                order by r.sequence
                limit p_limit * least(v_shares, 10) * 2) w
          where (pg_catalog.uuid_hash(w.share_key) & 2147483647) % v_shares = v_share
          limit p_limit))
        and o.processed_at is null and o.scheduled_for is null and not o.blocked
        and (o.instance_id is null or o.lease_expiry < v_now)
      order by o.sequence
      for no key update skip locked
    ),
    due as materialized (
      select o.message_id, o.sequence, o.stream_id, o.body_bytes, o.message_type as breaker_key,
             o.instance_id is not null and o.attempts >= 2 as suspect
      from whizbang.wh_inbox o
      where o.processed_at is null and o.scheduled_for is not null and o.scheduled_for <= v_now and not o.blocked
        and (o.instance_id is null or o.lease_expiry < v_now)
      order by o.scheduled_for, o.sequence
      limit p_limit
      for no key update skip locked
    ),
    seen as materialized (
      select * from ready union all select * from shared union all select * from due
    ),
    closed as materialized (
      select s.message_id, b.seconds
      from (select s.message_id, s.breaker_key, row_number() over (partition by s.breaker_key order by s.sequence) as position
            from seen s where cardinality(p_closed_keys) > 0) s
      join unnest(p_closed_keys, p_closed_seconds, p_closed_trial) as b (breaker_key, seconds, trial) on b.breaker_key = s.breaker_key
      where not b.trial or s.position > 1
    ),
    candidate as materialized (
      select s.* from seen s where s.message_id not in (select c.message_id from closed c)
    ),
    stream_head as materialized (
      select s.stream_id, e.message_id, e.sequence, e.waits
      from (select c.stream_id, max(c.sequence) as last_sequence from candidate c where c.stream_id is not null group by c.stream_id order by c.stream_id) s
      -- In the order of the index: neighbours among the streams share its pages, which in a large one are not in the processor's caches.
      cross join lateral (
        select e.message_id, e.sequence,
               -- The last: it is due, but so are more than fit into a look, and its followers would keep it out of every one.
               (e.scheduled_for > v_now or e.blocked or p_block_leased
                or (e.scheduled_for is not null and (e.instance_id is null or e.lease_expiry < v_now))) is true as waits
        from whizbang.wh_inbox e
        where e.stream_id = s.stream_id and e.sequence < s.last_sequence and e.processed_at is null
          and (e.scheduled_for is null or (e.scheduled_for < 'infinity' and not e.passable))
          and (e.instance_id is distinct from p_instance_id or e.lease_expiry < v_now)
          and e.message_id not in (select c.message_id from candidate c)
        order by e.sequence
        limit 1
      ) e
    ),
    open_row as materialized (
      select c.message_id, c.sequence, c.suspect,
             sum(c.body_bytes) over (order by c.sequence rows unbounded preceding) - c.body_bytes as bytes_before,
             row_number() over (order by c.sequence) as position,
             coalesce(bool_or(c.suspect) over (order by c.sequence rows unbounded preceding), false) as from_suspect
      from candidate c
      left join stream_head h on h.stream_id = c.stream_id
      where h.stream_id is null or c.sequence < h.sequence
    ),
    claimable as materialized (
      select f.message_id
      from open_row f
      where f.position <= p_limit and f.bytes_before < p_max_bytes
        and (not f.from_suspect or f.position = 1)
    ),
    held_head as materialized (
      select o.message_id, o.stream_id
      from whizbang.wh_inbox o
      where o.message_id = any (array(select h.message_id from stream_head h where h.waits))
        -- Looked at again under the lock: it may have been settled or parked since this statement began.
        and o.processed_at is null and (o.scheduled_for is null or o.scheduled_for < 'infinity')
      for key share skip locked
    ),
    blocking as (
      update whizbang.wh_inbox o
      set blocked = true
      where o.message_id = any (array(
        select c.message_id
        from candidate c
        join stream_head h on h.stream_id = c.stream_id and c.sequence > h.sequence
        join held_head l on l.message_id = h.message_id))
    ),
    putting_off as (
      update whizbang.wh_inbox o
      set scheduled_for = v_now + (select b.seconds from closed b where b.message_id = o.message_id) * interval '1 second'
      where o.message_id = any (array(select b.message_id from closed b))
    ),
    claimed as (
      update whizbang.wh_inbox o
      set instance_id = p_instance_id,
          lease_expiry = v_now + p_lease_seconds * interval '1 second',
          attempts = o.attempts + 1,
          -- The holder before died, or lost its lease: the only trace of it is here.
          failure_reason = case when o.instance_id is null then o.failure_reason else 6 end,
          error = case when o.instance_id is null then o.error
                       else format('the lease of instance %s ended at %s', o.instance_id, o.lease_expiry) end
      where o.message_id = any (array(select f.message_id from claimable f))
      returning o.message_id, o.destination, o.message_type, o.event_data, o.metadata, o.stream_id, o.attempts, o.sequence,
                o.body_bytes, o.received_at, o.error, o.failure_reason, o.status
    )
    select c.message_id, c.destination::text, c.message_type::text, c.event_data::text, c.metadata::text, c.stream_id,
           c.attempts, c.sequence, c.body_bytes, c.received_at, c.error, c.failure_reason, c.status,
           (select count(*) from seen)::integer,
           c.message_id = any (array(select f.message_id from candidate f where f.suspect)),
           c.stream_id is not null and (select exists (select 1 from whizbang.wh_dead_letters d where d.parks_stream))
             and exists (select 1 from whizbang.wh_dead_letters d
                         where d.parks_stream and d.stream_id = c.stream_id and d.source_table = 'wh_inbox'
                           -- What comes back from before it does not follow it.
                           and d.source_sequence < c.sequence)
    from claimed c
    order by c.sequence;
    exit when found or v_shares = 1;
    v_shares := 1;
  end loop;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'claim_orphaned_outbox',
    checksum: '7a362192f0650140129651ae19444477ffc7a276c3889e6b95402b2722559f65',
    text: `-- Claims up to p_limit rows (and about p_max_bytes of bodies, one row at the least) for an instance: unprocessed, due, and
-- unleased or with a lease that has run out, in sequence order. Sets the lease and adds one to attempts.
--
-- Prefix rule: of each stream only a contiguous prefix is taken. A row stays when an earlier unprocessed row of its stream
-- is neither in this claim nor leased by this very instance. Outside that order are parked rows (infinity) and rows that
-- failed under the policy \`continue\` (passable).
--
-- A follower whose head waits for its time is marked \`blocked\` on the way, and so leaves the indexes that claims read: a
-- million of them cost one visit each, not one per claim. With p_block_leased the same goes for followers of a head that
-- another instance holds; the caller asks for it when full scans keep finding nothing. The head is locked FOR KEY SHARE
-- while its followers are marked: who settles it waits for that, and then sees and frees them.
--
-- Suspects: a row whose lease has run out for the second time may be what kills its holders. It is claimed alone, and what
-- stands before it first, so that it cannot drag its neighbours to the cap.
--
-- Breakers: rows whose destination is in p_closed_keys are put off by p_closed_seconds instead of being claimed; where
-- p_closed_trial is true, one of them is let through.
--
-- Shares: where several instances are at it, each looks first at rows of its own share of the streams, by hash, so that they
-- do not stand in front of heads that others hold. A share is no property: who finds nothing in its own takes what there is,
-- and one claim of eight looks at everything, so that nobody's absence keeps a stream from going on. The prefix rule alone
-- decides what may be taken.
--
-- \`candidates\` tells how many rows were looked at; \`suspect\` that the row is on trial; \`parked\` that a dead letter of its
-- stream wants it to follow. The settings fix the plan, as do the arrays in place of joins: walk the partial index in
-- order, whatever the statistics say of the table at that moment.
create or replace function whizbang.claim_orphaned_outbox(
  p_instance_id uuid, p_limit integer, p_max_bytes bigint, p_lease_seconds double precision,
  p_block_leased boolean default false,
  p_closed_keys text[] default '{}', p_closed_seconds double precision[] default '{}', p_closed_trial boolean[] default '{}'
) returns table (
  message_id uuid, destination text, message_type text, event_data text, metadata text, stream_id uuid,
  attempts integer, sequence bigint, body_bytes integer, created_at timestamptz, error text, failure_reason integer,
  status integer, candidates integer, suspect boolean, parked boolean
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_shares integer := 1;
  v_share integer := 0;
begin
  if random() < 0.875 then
    select case when bool_or(i.instance_id = p_instance_id) then count(*) end, count(*) filter (where i.instance_id < p_instance_id)
    into v_shares, v_share
    from whizbang.wh_service_instances i
    where i.last_heartbeat_at > v_now - interval '35 seconds' and i.metadata ->> 'publishes' is distinct from 'false';
    -- A claim under an id that is not known yet, or any more.
    v_shares := coalesce(v_shares, 1);
  end if;
  loop
    return query
    with ready as materialized (
      select o.message_id, o.sequence, o.stream_id, o.body_bytes, o.destination as breaker_key,
             o.instance_id is not null and o.attempts >= 2 as suspect
      from whizbang.wh_outbox o
      where v_shares = 1
        and o.processed_at is null and o.scheduled_for is null and not o.blocked
        and (o.instance_id is null or o.lease_expiry < v_now)
      order by o.sequence
      limit p_limit
      for no key update skip locked
    ),
    shared as materialized (
      select o.message_id, o.sequence, o.stream_id, o.body_bytes, o.destination as breaker_key,
             o.instance_id is not null and o.attempts >= 2 as suspect
      from whizbang.wh_outbox o
      where v_shares > 1
        and o.sequence = any (array(
          select w.sequence
          -- Bounded, so that the backlog of others is not read through.
          from (select r.sequence, coalesce(r.stream_id, r.message_id) as share_key
                from whizbang.wh_outbox r
                where r.processed_at is null and r.scheduled_for is null and not r.blocked
                  and (r.instance_id is null or r.lease_expiry < v_now)
                order by r.sequence
                limit p_limit * least(v_shares, 10) * 2) w
          where (pg_catalog.uuid_hash(w.share_key) & 2147483647) % v_shares = v_share
          limit p_limit))
        and o.processed_at is null and o.scheduled_for is null and not o.blocked
        and (o.instance_id is null or o.lease_expiry < v_now)
      order by o.sequence
      for no key update skip locked
    ),
    due as materialized (
      select o.message_id, o.sequence, o.stream_id, o.body_bytes, o.destination as breaker_key,
             o.instance_id is not null and o.attempts >= 2 as suspect
      from whizbang.wh_outbox o
      where o.processed_at is null and o.scheduled_for is not null and o.scheduled_for <= v_now and not o.blocked
        and (o.instance_id is null or o.lease_expiry < v_now)
      order by o.scheduled_for, o.sequence
      limit p_limit
      for no key update skip locked
    ),
    seen as materialized (
      select * from ready union all select * from shared union all select * from due
    ),
    closed as materialized (
      select s.message_id, b.seconds
      from (select s.message_id, s.breaker_key, row_number() over (partition by s.breaker_key order by s.sequence) as position
            from seen s where cardinality(p_closed_keys) > 0) s
      join unnest(p_closed_keys, p_closed_seconds, p_closed_trial) as b (breaker_key, seconds, trial) on b.breaker_key = s.breaker_key
      where not b.trial or s.position > 1
    ),
    candidate as materialized (
      select s.* from seen s where s.message_id not in (select c.message_id from closed c)
    ),
    stream_head as materialized (
      select s.stream_id, e.message_id, e.sequence, e.waits
      from (select c.stream_id, max(c.sequence) as last_sequence from candidate c where c.stream_id is not null group by c.stream_id order by c.stream_id) s
      -- In the order of the index: neighbours among the streams share its pages, which in a large one are not in the processor's caches.
      cross join lateral (
        select e.message_id, e.sequence,
               -- The last: it is due, but so are more than fit into a look, and its followers would keep it out of every one.
               (e.scheduled_for > v_now or e.blocked or p_block_leased
                or (e.scheduled_for is not null and (e.instance_id is null or e.lease_expiry < v_now))) is true as waits
        from whizbang.wh_outbox e
        where e.stream_id = s.stream_id and e.sequence < s.last_sequence and e.processed_at is null
          and (e.scheduled_for is null or (e.scheduled_for < 'infinity' and not e.passable))
          and (e.instance_id is distinct from p_instance_id or e.lease_expiry < v_now)
          and e.message_id not in (select c.message_id from candidate c)
        order by e.sequence
        limit 1
      ) e
    ),
    open_row as materialized (
      select c.message_id, c.sequence, c.suspect,
             sum(c.body_bytes) over (order by c.sequence rows unbounded preceding) - c.body_bytes as bytes_before,
             row_number() over (order by c.sequence) as position,
             coalesce(bool_or(c.suspect) over (order by c.sequence rows unbounded preceding), false) as from_suspect
      from candidate c
      left join stream_head h on h.stream_id = c.stream_id
      where h.stream_id is null or c.sequence < h.sequence
    ),
    claimable as materialized (
      select f.message_id
      from open_row f
      where f.position <= p_limit and f.bytes_before < p_max_bytes
        and (not f.from_suspect or f.position = 1)
    ),
    held_head as materialized (
      select o.message_id, o.stream_id
      from whizbang.wh_outbox o
      where o.message_id = any (array(select h.message_id from stream_head h where h.waits))
        -- Looked at again under the lock: it may have been settled or parked since this statement began.
        and o.processed_at is null and (o.scheduled_for is null or o.scheduled_for < 'infinity')
      for key share skip locked
    ),
    blocking as (
      update whizbang.wh_outbox o
      set blocked = true
      where o.message_id = any (array(
        select c.message_id
        from candidate c
        join stream_head h on h.stream_id = c.stream_id and c.sequence > h.sequence
        join held_head l on l.message_id = h.message_id))
    ),
    putting_off as (
      update whizbang.wh_outbox o
      set scheduled_for = v_now + (select b.seconds from closed b where b.message_id = o.message_id) * interval '1 second'
      where o.message_id = any (array(select b.message_id from closed b))
    ),
    claimed as (
      update whizbang.wh_outbox o
      set instance_id = p_instance_id,
          lease_expiry = v_now + p_lease_seconds * interval '1 second',
          attempts = o.attempts + 1,
          -- The holder before died, or lost its lease: the only trace of it is here.
          failure_reason = case when o.instance_id is null then o.failure_reason else 6 end,
          error = case when o.instance_id is null then o.error
                       else format('the lease of instance %s ended at %s', o.instance_id, o.lease_expiry) end
      where o.message_id = any (array(select f.message_id from claimable f))
      returning o.message_id, o.destination, o.message_type, o.event_data, o.metadata, o.stream_id, o.attempts, o.sequence,
                o.body_bytes, o.created_at, o.error, o.failure_reason, o.status
    )
    select c.message_id, c.destination::text, c.message_type::text, c.event_data::text, c.metadata::text, c.stream_id,
           c.attempts, c.sequence, c.body_bytes, c.created_at, c.error, c.failure_reason, c.status,
           (select count(*) from seen)::integer,
           c.message_id = any (array(select f.message_id from candidate f where f.suspect)),
           c.stream_id is not null and (select exists (select 1 from whizbang.wh_dead_letters d where d.parks_stream))
             and exists (select 1 from whizbang.wh_dead_letters d
                         where d.parks_stream and d.stream_id = c.stream_id and d.source_table = 'wh_outbox'
                           -- What comes back from before it does not follow it.
                           and d.source_sequence < c.sequence)
    from claimed c
    order by c.sequence;
    exit when found or v_shares = 1;
    v_shares := 1;
  end loop;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'complete_inbox_handled',
    checksum: '25303b7930331e504d29099dd9440d2c6652372ff8a0e716c823ab4d2e20ab5f',
    text: `-- Settles messages in the transaction of their handler: deletes them, or with p_retain keeps them, stamped. A row counts only
-- while this instance still holds the very attempt it claimed. Returns the ids that it no longer held (null for none).
--
-- From here on the rows are locked, and their streams with them, until the commit, which is all that is still to come: a process
-- that stands still or has gone without a word before it may keep them for ten seconds, not for as long as TCP does.
-- For \`= any (array[…])\` in joins see complete_outbox_published.
create or replace function whizbang.complete_inbox_handled(
  p_instance_id uuid, p_message_ids uuid[], p_attempts integer[], p_retain boolean default false
) returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_done uuid[];
  v_streams uuid[];
  v_patience interval := current_setting('idle_in_transaction_session_timeout')::interval;
begin
  if v_patience = interval '0' or v_patience > interval '10 seconds' then
    perform set_config('idle_in_transaction_session_timeout', '10s', true);
  end if;
  if p_retain then
    -- An update of these columns alone would not wait for a claim that is marking followers behind one of these rows, and
    -- would leave them marked for ever. FOR UPDATE does, as a delete does.
    perform 1
    from whizbang.wh_inbox o, unnest(p_message_ids, p_attempts) as d (message_id, attempts)
    where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
      and o.processed_at is null
    for update of o;
    with done as (
      update whizbang.wh_inbox o
      set processed_at = clock_timestamp(),
          instance_id = null, lease_expiry = null
      from unnest(p_message_ids, p_attempts) as d (message_id, attempts)
      where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
        and o.processed_at is null
      returning o.message_id, o.stream_id
    )
    select array_agg(message_id), array_agg(stream_id) into v_done, v_streams from done;
  else
    with done as (
      delete from whizbang.wh_inbox o
      using unnest(p_message_ids, p_attempts) as d (message_id, attempts)
      where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
        and o.processed_at is null
      returning o.message_id, o.stream_id
    )
    select array_agg(message_id), array_agg(stream_id) into v_done, v_streams from done;
  end if;
  perform whizbang.unblock_inbox_streams(v_streams);
  if coalesce(cardinality(v_done), 0) = cardinality(p_message_ids) then
    return null;
  end if;
  return array(select unnest(p_message_ids) except select unnest(v_done));
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'complete_outbox_published',
    checksum: 'dd6e14d820450a793403ee4b673d6d6d3a388ac3d639b371507df3beb26d6b8b',
    text: `-- Settles messages that the broker has confirmed: deletes them, or with p_retain keeps them, stamped. A row counts only
-- while this instance still holds the very attempt it claimed. Returns the ids that it no longer held (null for none).
--
-- Rows are joined by \`= any (array[…])\` where \`=\` would do, here and wherever rows are settled: a join on equality may also begin
-- with the whole table in the order of its key, and does when statistics say that it is empty. They say so in every burst that
-- follows a vacuum of the drained table.
create or replace function whizbang.complete_outbox_published(
  p_instance_id uuid, p_message_ids uuid[], p_attempts integer[], p_retain boolean default false
) returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_done uuid[];
  v_streams uuid[];
begin
  if p_retain then
    -- An update of these columns alone would not wait for a claim that is marking followers behind one of these rows, and
    -- would leave them marked for ever. FOR UPDATE does, as a delete does.
    perform 1
    from whizbang.wh_outbox o, unnest(p_message_ids, p_attempts) as d (message_id, attempts)
    where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
      and o.processed_at is null
    for update of o;
    with done as (
      update whizbang.wh_outbox o
      set status = o.status | 4, published_at = clock_timestamp(), processed_at = clock_timestamp(),
          instance_id = null, lease_expiry = null
      from unnest(p_message_ids, p_attempts) as d (message_id, attempts)
      where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
        and o.processed_at is null
      returning o.message_id, o.stream_id
    )
    select array_agg(message_id), array_agg(stream_id) into v_done, v_streams from done;
  else
    with done as (
      delete from whizbang.wh_outbox o
      using unnest(p_message_ids, p_attempts) as d (message_id, attempts)
      where o.message_id = any (array[d.message_id]) and o.instance_id = p_instance_id and o.attempts = d.attempts
        and o.processed_at is null
      returning o.message_id, o.stream_id
    )
    select array_agg(message_id), array_agg(stream_id) into v_done, v_streams from done;
  end if;
  perform whizbang.unblock_outbox_streams(v_streams);
  if coalesce(cardinality(v_done), 0) = cardinality(p_message_ids) then
    return null;
  end if;
  return array(select unnest(p_message_ids) except select unnest(v_done));
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'defer_inbox',
    checksum: '19f7f9a7f84aff66e24ba15ca82c2208ba477298cbbfcd361364944f9ab5fa10',
    text: `-- Puts down rows of a stream of which this instance has enough in hand: released like untried rows, and kept out of the
-- way of claims behind the row in hand that precedes them, so that one long stream cannot fill the hands of an instance.
-- The preceding row is locked FOR KEY SHARE: who deletes it waits for us, and then sees and frees them. Where it is gone
-- or going, the rows are merely released. Returns the ids no longer held.
-- For \`= any (array[…])\` in joins see complete_outbox_published.
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
`,
  },
  {
    kind: 'function',
    name: 'deregister_instance',
    checksum: 'b7bcfc3cb3b32ea9bf930570266c443cf7637b01de51bf02f62d03ce156fe792',
    text: `-- Forgets an instance on its clean stop. It has released its rows by then: finding them here would mean reading the
-- whole backlog. Wakes the sleepers: what it has put down, and what waited behind rows in its hands, is theirs now.
create or replace function whizbang.deregister_instance(p_instance_id uuid) returns void
language plpgsql volatile
as $$
begin
  delete from whizbang.wh_doorbells where instance_id = p_instance_id;
  delete from whizbang.wh_service_instances where instance_id = p_instance_id;
  perform whizbang.ring_doorbell('outbox');
  perform whizbang.ring_doorbell('inbox');
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'disarm_doorbell',
    checksum: '1cadb43db4541757571da91b72f55b467f4b2a6ac886489604b0b570851e1581',
    text: `-- Called by an instance that woke up or stops. It takes its own row only: it may have woken because something became due,
-- and then nobody has rung the others. The row of a process that died in its sleep goes with the next heartbeats.
create or replace function whizbang.disarm_doorbell(p_channel text, p_instance_id uuid) returns void
language sql volatile
as $$
  delete from whizbang.wh_doorbells where channel = p_channel and instance_id = p_instance_id;
$$;
`,
  },
  {
    kind: 'function',
    name: 'exchange_inbox_work',
    checksum: '1272d01aed63b6a9a18e978032ca3543627434fce6b5628d54d744742db0e16a',
    text: `-- One round trip, one commit: records failures, releases and deferrals, then claims the next batch. The settlements come first, so that
-- the claim already respects a head that has just failed. Completions are not here: a handled message is completed in the
-- transaction of its handler, by complete_inbox_handled().
-- Rows: outcome 'stale' for a settlement that this instance no longer held; 'dead' for a failure that ended in the dead letters; 'claimed' for a claimed message; and, when
-- nothing was claimed, one 'idle' row with the time when something becomes due or the lease of another instance runs out.
create or replace function whizbang.exchange_inbox_work(
  p_instance_id uuid,
  p_failures jsonb, p_failure_settings jsonb,
  p_released_ids uuid[], p_released_attempts integer[],
  p_deferred_ids uuid[], p_deferred_attempts integer[],
  p_limit integer, p_max_bytes bigint, p_lease_seconds double precision, p_block_leased boolean,
  p_closed_keys text[], p_closed_seconds double precision[], p_closed_trial boolean[]
) returns table (
  outcome text, message_id uuid, destination text, message_type text, event_data text, metadata text, stream_id uuid,
  attempts integer, sequence bigint, body_bytes integer, age_ms double precision, status integer, candidates integer,
  idle_ms double precision, suspect boolean, parked boolean, error text, failure_reason integer
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_stale uuid[];
  v_dead uuid[];
  v_failure record;
  v_now timestamptz;
  v_claimed integer := 0;
begin
  -- Nobody waits for this commit to reach the disk: what a crash of the database could undo is a lease, which then was
  -- never taken, or a settlement, which is then made again.
  perform set_config('synchronous_commit', 'off', true);
  if jsonb_array_length(p_failures) > 0 then
    for v_failure in select * from whizbang.report_failures('inbox', p_instance_id, p_failures, p_failure_settings) loop
      if v_failure.outcome = 'stale' then
        v_stale := v_stale || v_failure.message_id;
      elsif v_failure.outcome = 'dead' then
        v_dead := v_dead || v_failure.message_id;
      end if;
    end loop;
  end if;
  if cardinality(p_released_ids) > 0 then
    v_stale := v_stale || whizbang.release_inbox(p_instance_id, p_released_ids, p_released_attempts);
  end if;
  if cardinality(p_deferred_ids) > 0 then
    v_stale := v_stale || whizbang.defer_inbox(p_instance_id, p_deferred_ids, p_deferred_attempts);
  end if;
  return query
  select s.outcome, s.message_id, null::text, null::text, null::text, null::text, null::uuid,
         null::integer, null::bigint, null::integer, null::double precision, null::integer, null::integer,
         null::double precision, null::boolean, null::boolean, null::text, null::integer
  from (select 'stale' as outcome, unnest(v_stale) as message_id union all select 'dead', unnest(v_dead)) s;
  if p_limit <= 0 then
    return;
  end if;
  return query
  select 'claimed', c.message_id, c.destination, c.message_type, c.event_data, c.metadata, c.stream_id, c.attempts,
         c.sequence, c.body_bytes, 
         -- What is infinite, by whose hand ever, has no age; before PostgreSQL 17 it would also fail this claim, and every other.
         case when isfinite(c.received_at) then extract(epoch from clock_timestamp() - c.received_at)::double precision * 1000 else 0 end, c.status,
         c.candidates, null::double precision, c.suspect, c.parked, c.error, c.failure_reason
  from whizbang.claim_orphaned_inbox(p_instance_id, p_limit, p_max_bytes, p_lease_seconds, p_block_leased,
         p_closed_keys, p_closed_seconds, p_closed_trial) c;
  get diagnostics v_claimed = row_count;
  if v_claimed >= p_limit then
    -- There is more than one instance can carry: one that is awake must not leave its sleeping peers asleep.
    perform whizbang.ring_doorbell('inbox');
  elsif v_claimed = 0 then
    v_now := clock_timestamp();
    return query
    select 'idle', null::uuid, null::text, null::text, null::text, null::text, null::uuid,
           null::integer, null::bigint, null::integer, null::double precision, null::integer,
           greatest(
             (select count(*) from (
                select 1 from whizbang.wh_inbox o
                where o.processed_at is null and o.scheduled_for is null and not o.blocked
                  and (o.instance_id is null or o.lease_expiry < v_now)
                order by o.sequence limit p_limit) c),
             (select count(*) from (
                select 1 from whizbang.wh_inbox o
                where o.processed_at is null and o.scheduled_for is not null and o.scheduled_for <= v_now and not o.blocked
                  and (o.instance_id is null or o.lease_expiry < v_now)
                order by o.scheduled_for, o.sequence limit p_limit) d))::integer,
           extract(epoch from least(
             (select o.scheduled_for from whizbang.wh_inbox o
              where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for > v_now
                and o.scheduled_for < 'infinity'
              order by o.scheduled_for, o.sequence limit 1),
             (select min(l.lease_expiry) from (
                select o.lease_expiry from whizbang.wh_inbox o
                where o.processed_at is null and o.scheduled_for is null and not o.blocked
                order by o.sequence limit 1000) l
              where l.lease_expiry > v_now and l.lease_expiry < 'infinity')) - v_now)::double precision * 1000,
           null::boolean, null::boolean, null::text, null::integer;
  end if;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'exchange_outbox_work',
    checksum: '38332ee84b7489ad6b3a5a62af5ef6687ccb38e83925247a34680dfb0db307f5',
    text: `-- One round trip, one commit: settles what is done, then claims the next batch. The settlements come first, so that the
-- claim already respects a head that has just failed.
-- Rows: outcome 'stale' for a settlement that this instance no longer held; 'dead' for a failure that ended in the dead letters; 'claimed' for a claimed message; and, when
-- nothing was claimed, one 'idle' row with the time when something becomes due or the lease of another instance runs out.
create or replace function whizbang.exchange_outbox_work(
  p_instance_id uuid,
  p_completed_ids uuid[], p_completed_attempts integer[], p_retain boolean,
  p_failures jsonb, p_failure_settings jsonb,
  p_released_ids uuid[], p_released_attempts integer[],
  p_limit integer, p_max_bytes bigint, p_lease_seconds double precision, p_block_leased boolean,
  p_closed_keys text[], p_closed_seconds double precision[], p_closed_trial boolean[]
) returns table (
  outcome text, message_id uuid, destination text, message_type text, event_data text, metadata text, stream_id uuid,
  attempts integer, sequence bigint, body_bytes integer, age_ms double precision, status integer, candidates integer,
  idle_ms double precision, suspect boolean, parked boolean, error text, failure_reason integer
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_stale uuid[];
  v_dead uuid[];
  v_failure record;
  v_now timestamptz;
  v_claimed integer := 0;
begin
  -- Nobody waits for this commit to reach the disk: what a crash of the database could undo is a lease, which then was
  -- never taken, or a settlement, which is then made again.
  perform set_config('synchronous_commit', 'off', true);
  if cardinality(p_completed_ids) > 0 then
    v_stale := v_stale || whizbang.complete_outbox_published(p_instance_id, p_completed_ids, p_completed_attempts, p_retain);
  end if;
  if jsonb_array_length(p_failures) > 0 then
    for v_failure in select * from whizbang.report_failures('outbox', p_instance_id, p_failures, p_failure_settings) loop
      if v_failure.outcome = 'stale' then
        v_stale := v_stale || v_failure.message_id;
      elsif v_failure.outcome = 'dead' then
        v_dead := v_dead || v_failure.message_id;
      end if;
    end loop;
  end if;
  if cardinality(p_released_ids) > 0 then
    v_stale := v_stale || whizbang.release_outbox(p_instance_id, p_released_ids, p_released_attempts);
  end if;
  return query
  select s.outcome, s.message_id, null::text, null::text, null::text, null::text, null::uuid,
         null::integer, null::bigint, null::integer, null::double precision, null::integer, null::integer,
         null::double precision, null::boolean, null::boolean, null::text, null::integer
  from (select 'stale' as outcome, unnest(v_stale) as message_id union all select 'dead', unnest(v_dead)) s;
  if p_limit <= 0 then
    return;
  end if;
  return query
  select 'claimed', c.message_id, c.destination, c.message_type, c.event_data, c.metadata, c.stream_id, c.attempts,
         c.sequence, c.body_bytes, 
         -- What is infinite, by whose hand ever, has no age; before PostgreSQL 17 it would also fail this claim, and every other.
         case when isfinite(c.created_at) then extract(epoch from clock_timestamp() - c.created_at)::double precision * 1000 else 0 end, c.status,
         c.candidates, null::double precision, c.suspect, c.parked, c.error, c.failure_reason
  from whizbang.claim_orphaned_outbox(p_instance_id, p_limit, p_max_bytes, p_lease_seconds, p_block_leased,
         p_closed_keys, p_closed_seconds, p_closed_trial) c;
  get diagnostics v_claimed = row_count;
  if v_claimed >= p_limit then
    -- There is more than one instance can carry: one that is awake must not leave its sleeping peers asleep.
    perform whizbang.ring_doorbell('outbox');
  elsif v_claimed = 0 then
    v_now := clock_timestamp();
    return query
    select 'idle', null::uuid, null::text, null::text, null::text, null::text, null::uuid,
           null::integer, null::bigint, null::integer, null::double precision, null::integer,
           greatest(
             (select count(*) from (
                select 1 from whizbang.wh_outbox o
                where o.processed_at is null and o.scheduled_for is null and not o.blocked
                  and (o.instance_id is null or o.lease_expiry < v_now)
                order by o.sequence limit p_limit) c),
             (select count(*) from (
                select 1 from whizbang.wh_outbox o
                where o.processed_at is null and o.scheduled_for is not null and o.scheduled_for <= v_now and not o.blocked
                  and (o.instance_id is null or o.lease_expiry < v_now)
                order by o.scheduled_for, o.sequence limit p_limit) d))::integer,
           extract(epoch from least(
             (select o.scheduled_for from whizbang.wh_outbox o
              where o.processed_at is null and o.scheduled_for is not null and not o.blocked and o.scheduled_for > v_now
                and o.scheduled_for < 'infinity'
              order by o.scheduled_for, o.sequence limit 1),
             (select min(l.lease_expiry) from (
                select o.lease_expiry from whizbang.wh_outbox o
                where o.processed_at is null and o.scheduled_for is null and not o.blocked
                order by o.sequence limit 1000) l
              where l.lease_expiry > v_now and l.lease_expiry < 'infinity')) - v_now)::double precision * 1000,
           null::boolean, null::boolean, null::text, null::integer;
  end if;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'explain_message',
    checksum: 'c3d1f3a828970641c0ffccdf830e4bcaafd3f866fdc4240733a0ffc0a5188465',
    text: `-- Why a message has not gone on, from its row: its schedule, its lease, and the message of its stream it waits behind.
create or replace function whizbang.explain_message(p_message_id uuid)
returns table (
  category text, attempts integer, error text, message_type text, destination text, processed boolean, parked boolean,
  scheduled_at text, leased_by uuid, leased_until text, ahead uuid, failed_reason integer
)
language plpgsql stable
as $$
begin
  return query
  select 'outbox', o.attempts, o.error, o.message_type::text, o.destination::text, o.processed_at is not null,
         o.scheduled_for is not distinct from 'infinity',
         case when o.scheduled_for > clock_timestamp() and o.scheduled_for < 'infinity' then o.scheduled_for::text end,
         case when o.lease_expiry >= clock_timestamp() then o.instance_id end,
         case when o.lease_expiry >= clock_timestamp() then o.lease_expiry::text end,
         (select e.message_id from whizbang.wh_outbox e
          where e.stream_id = o.stream_id and e.sequence < o.sequence and e.processed_at is null
            and (e.scheduled_for is null or (e.scheduled_for < 'infinity' and not e.passable))
          order by e.sequence limit 1),
         o.failure_reason
  from whizbang.wh_outbox o where o.message_id = p_message_id;
  return query
  select 'inbox', o.attempts, o.error, o.message_type::text, o.destination::text, o.processed_at is not null,
         o.scheduled_for is not distinct from 'infinity',
         case when o.scheduled_for > clock_timestamp() and o.scheduled_for < 'infinity' then o.scheduled_for::text end,
         case when o.lease_expiry >= clock_timestamp() then o.instance_id end,
         case when o.lease_expiry >= clock_timestamp() then o.lease_expiry::text end,
         (select e.message_id from whizbang.wh_inbox e
          where e.stream_id = o.stream_id and e.sequence < o.sequence and e.processed_at is null
            and (e.scheduled_for is null or (e.scheduled_for < 'infinity' and not e.passable))
          order by e.sequence limit 1),
         o.failure_reason
  from whizbang.wh_inbox o where o.message_id = p_message_id;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'fetch_dead_letters_due',
    checksum: '26b8a4876c00ef9c0b978ed6766f66ae43fa4ecf19f6d6d5edaf519632f1a38b',
    text: `-- Dead letters that the recovery worker may look at: pending, not held by an operator, and due or not yet scheduled.
-- Oldest first; those of one stream in their order.
create or replace function whizbang.fetch_dead_letters_due(p_now timestamptz, p_limit integer)
returns setof whizbang.wh_dead_letters
language sql stable
as $$
  select d.*
  from whizbang.wh_dead_letters d
  where d.recovered_at is null and d.recovery_status in (0, 1) and d.operator_disposition not in (2, 3)
    and (d.next_recovery_at is null or d.next_recovery_at <= p_now)
  order by d.dead_lettered_at, d.source_sequence
  limit p_limit;
$$;
`,
  },
  {
    kind: 'function',
    name: 'find_stuck_inbox_rows',
    checksum: 'b03ce1e30f412ccef94a12b6be7dbf5a7b2225666214803841a86ae55aa037c3',
    text: `-- Rows that were claimed more often than the cap allows and never drained, worst first; and parked rows (infinity), which
-- nothing will ever drain. Served by idx_inbox_stuck_sentinel and idx_inbox_parked; a threshold below 5 reads the table beside.
create or replace function whizbang.find_stuck_inbox_rows(p_max_attempts integer, p_limit integer)
returns table (
  message_id uuid, message_type text, stream_id uuid, attempts integer, claimed_since timestamptz, parked boolean
)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return query
  select s.message_id, s.message_type::text, s.stream_id, s.attempts, s.received_at, s.scheduled_for is not distinct from 'infinity'
  from (
    (select o.message_id, o.message_type, o.stream_id, o.attempts, o.received_at, o.scheduled_for, o.sequence from whizbang.wh_inbox o
     where o.processed_at is null and o.past_sentinel and o.attempts > p_max_attempts
     order by o.attempts desc, o.sequence limit p_limit)
    union
    (select o.message_id, o.message_type, o.stream_id, o.attempts, o.received_at, o.scheduled_for, o.sequence from whizbang.wh_inbox o
     where p_max_attempts < 5 and o.processed_at is null and not o.past_sentinel and o.attempts > p_max_attempts
     order by o.attempts desc, o.sequence limit p_limit)
    union
    (select o.message_id, o.message_type, o.stream_id, o.attempts, o.received_at, o.scheduled_for, o.sequence from whizbang.wh_inbox o
     where o.processed_at is null and o.scheduled_for = 'infinity'
     order by o.sequence limit p_limit)
  ) s
  order by s.attempts desc, s.received_at
  limit p_limit;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'find_stuck_outbox_rows',
    checksum: 'b4fbe661db3b7cceabddaca71ee7a5099da2a1b5aca76a7b35c065a4c9d6a2e4',
    text: `-- Rows that were claimed more often than the cap allows and never drained, worst first; and parked rows (infinity), which
-- nothing will ever drain. Served by idx_outbox_stuck_sentinel and idx_outbox_parked; a threshold below 5 reads the table beside.
create or replace function whizbang.find_stuck_outbox_rows(p_max_attempts integer, p_limit integer)
returns table (
  message_id uuid, message_type text, stream_id uuid, attempts integer, claimed_since timestamptz, parked boolean
)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return query
  select s.message_id, s.message_type::text, s.stream_id, s.attempts, s.created_at, s.scheduled_for is not distinct from 'infinity'
  from (
    (select o.message_id, o.message_type, o.stream_id, o.attempts, o.created_at, o.scheduled_for, o.sequence from whizbang.wh_outbox o
     where o.processed_at is null and o.past_sentinel and o.attempts > p_max_attempts
     order by o.attempts desc, o.sequence limit p_limit)
    union
    (select o.message_id, o.message_type, o.stream_id, o.attempts, o.created_at, o.scheduled_for, o.sequence from whizbang.wh_outbox o
     where p_max_attempts < 5 and o.processed_at is null and not o.past_sentinel and o.attempts > p_max_attempts
     order by o.attempts desc, o.sequence limit p_limit)
    union
    (select o.message_id, o.message_type, o.stream_id, o.attempts, o.created_at, o.scheduled_for, o.sequence from whizbang.wh_outbox o
     where o.processed_at is null and o.scheduled_for = 'infinity'
     order by o.sequence limit p_limit)
  ) s
  order by s.attempts desc, s.created_at
  limit p_limit;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'give_up_dead_letter',
    checksum: '7686b55d5d54919803c0d6c02e45ee3804dc420e8b98426a1750d679aea7b49f',
    text: `-- An operator's last word: never again. False when it is recovered already.
create or replace function whizbang.give_up_dead_letter(p_dead_letter_id uuid, p_actor text) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 4, next_recovery_at = null, operator_disposition = 3, operator_actor = p_actor, parks_stream = false
  where dead_letter_id = p_dead_letter_id and recovered_at is null;
  return found;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'hold_dead_letter',
    checksum: '9e395c1ae6225c130e0656f00097f403102d5095a7861c3d23f622ee0c63c457',
    text: `-- An operator's hold: neither the policy nor a new generation touches it. False when it is recovered already.
create or replace function whizbang.hold_dead_letter(p_dead_letter_id uuid, p_actor text) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 2, next_recovery_at = null, operator_disposition = 2, operator_actor = p_actor
  where dead_letter_id = p_dead_letter_id and recovered_at is null;
  return found;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'lock_streams',
    checksum: '9862f2f8365894a46ddd459fd1170e795e48c4ff21bb5e93660c69ce012e21f7',
    text: `-- Makes transactions that write to the same streams wait for each other until they end, for message types that need the
-- order of commits. Sorted, so that two transactions with several streams cannot deadlock.
create or replace function whizbang.lock_streams(p_stream_ids uuid[]) returns void
language plpgsql volatile
as $$
declare
  v_stream_id uuid;
begin
  for v_stream_id in select distinct s.stream_id from unnest(p_stream_ids) as s (stream_id) order by 1 loop
    perform pg_advisory_xact_lock(hashtextextended('whizbang' || v_stream_id::text, 0));
  end loop;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'mark_dead_letter_holding',
    checksum: '2306a191ccc752f6931f6a91cfe40feda1747d7757446e8173815e0d97fd73f4',
    text: `-- Leaves a dead letter to an operator. Returns false when it is recovered, held or given up already, or was just given another try.
create or replace function whizbang.mark_dead_letter_holding(p_dead_letter_id uuid) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 2, next_recovery_at = null
  where dead_letter_id = p_dead_letter_id and recovered_at is null and recovery_status in (0, 1)
    and operator_disposition <> 1;
  return found;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'mark_dead_letter_permanently_failed',
    checksum: '5dc3d3a8c7561565ef37704912b218ca0d7a4dc65a9e0a94e742c854a235171d',
    text: `-- Gives a dead letter up for good. Returns false when it is recovered or given up already, or was just given another try.
create or replace function whizbang.mark_dead_letter_permanently_failed(p_dead_letter_id uuid) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 4, next_recovery_at = null, parks_stream = false
  where dead_letter_id = p_dead_letter_id and recovered_at is null and recovery_status <> 4
    and operator_disposition <> 1;
  return found;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'move_to_dead_letters',
    checksum: 'd056801b141e9b9dcc4ba0710c327f8e7508a707f56adc069e4846aa1d3ea37a',
    text: `-- Moves messages that are given up into wh_dead_letters, whole, in one statement: they are in one table or the other at
-- any moment. Fenced by holder and attempt; a null p_instance_id moves rows whoever holds them (an operator's doing).
-- Moving what has been moved does nothing. A message that dies again after a recovery updates its row.
-- p_messages: [{messageId, attempt, reason, lastReason, error, fingerprint, parks, untried, completedStatus}].
-- Returns the ids that were moved (null for none).
-- For \`= any (array[…])\` in joins see complete_outbox_published.
create or replace function whizbang.move_to_dead_letters(
  p_source_table text, p_instance_id uuid, p_messages jsonb, p_generation text
) returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_moved uuid[];
  v_streams uuid[];
begin
  if p_source_table = 'wh_outbox' then
    with gone as (
      delete from whizbang.wh_outbox o
      using jsonb_to_recordset(p_messages) as m ("messageId" uuid, attempt integer)
      where o.message_id = any (array[m."messageId"]) and o.processed_at is null
        and (p_instance_id is null or (o.instance_id = p_instance_id and o.attempts = m.attempt))
      returning o.*
    ),
    moved as (
      insert into whizbang.wh_dead_letters as d
        (dead_letter_id, source_table, source_id, stream_id, message_type, destination, handler_name, envelope_type, envelope,
         metadata, scope, is_event, flags, status, source_sequence, source_created_at, body_bytes, failure_reason,
         last_failure_reason, error_text, attempts_when_dlq, parks_stream, dead_lettered_by, generation, error_fingerprint,
         error_fingerprint_version, dead_lettered_at)
      select whizbang.uuid_v7(), 'wh_outbox', g.message_id, g.stream_id, g.message_type, g.destination, null, g.envelope_type,
             g.event_data, g.metadata, g.scope, g.is_event, g.flags, g.status | coalesce(m."completedStatus", 0) | 32768,
             g.sequence, g.created_at, g.body_bytes, m.reason, coalesce(m."lastReason", nullif(g.failure_reason, 99), m.reason),
             coalesce(m.error, g.error), g.attempts - case when m.untried then 1 else 0 end,
             coalesce(m.parks, false) and g.stream_id is not null, p_instance_id, p_generation, m.fingerprint,
             case when m.fingerprint is null then null else 1 end, clock_timestamp()
      from gone g
      join (
        -- One that is named twice is one.
        select distinct on (e."messageId") e.*
        from jsonb_to_recordset(p_messages) as e
             ("messageId" uuid, reason integer, "lastReason" integer, error text, fingerprint text, parks boolean,
              untried boolean, "completedStatus" integer)) m on m."messageId" = g.message_id
      on conflict (source_table, source_id) do update
      -- It died again: what it was and why is renewed, what recovery has spent on it stays.
      set stream_id = excluded.stream_id, envelope = excluded.envelope, metadata = excluded.metadata, status = excluded.status,
          source_sequence = excluded.source_sequence, failure_reason = excluded.failure_reason,
          last_failure_reason = excluded.last_failure_reason, error_text = excluded.error_text,
          attempts_when_dlq = excluded.attempts_when_dlq, parks_stream = excluded.parks_stream,
          dead_lettered_at = excluded.dead_lettered_at, dead_lettered_by = excluded.dead_lettered_by,
          generation = excluded.generation, error_fingerprint = excluded.error_fingerprint,
          error_fingerprint_version = excluded.error_fingerprint_version,
          recovery_status = 0, next_recovery_at = null, recovered_at = null, operator_disposition = 0
      returning d.source_id, d.stream_id
    )
    select array_agg(source_id), array_agg(stream_id) into v_moved, v_streams from moved;
    perform whizbang.unblock_outbox_streams(v_streams);
  elsif p_source_table = 'wh_inbox' then
    with gone as (
      delete from whizbang.wh_inbox o
      using jsonb_to_recordset(p_messages) as m ("messageId" uuid, attempt integer)
      where o.message_id = any (array[m."messageId"]) and o.processed_at is null
        and (p_instance_id is null or (o.instance_id = p_instance_id and o.attempts = m.attempt))
      returning o.*
    ),
    moved as (
      insert into whizbang.wh_dead_letters as d
        (dead_letter_id, source_table, source_id, stream_id, message_type, destination, handler_name, envelope_type, envelope,
         metadata, scope, is_event, flags, status, source_sequence, source_created_at, body_bytes, failure_reason,
         last_failure_reason, error_text, attempts_when_dlq, parks_stream, dead_lettered_by, generation, error_fingerprint,
         error_fingerprint_version, dead_lettered_at)
      select whizbang.uuid_v7(), 'wh_inbox', g.message_id, g.stream_id, g.message_type, g.destination, g.handler_name, null,
             g.event_data, g.metadata, g.scope, g.is_event, g.flags, g.status | coalesce(m."completedStatus", 0) | 32768,
             g.sequence, g.received_at, g.body_bytes, m.reason, coalesce(m."lastReason", nullif(g.failure_reason, 99), m.reason),
             coalesce(m.error, g.error), g.attempts - case when m.untried then 1 else 0 end,
             coalesce(m.parks, false) and g.stream_id is not null, p_instance_id, p_generation, m.fingerprint,
             case when m.fingerprint is null then null else 1 end, clock_timestamp()
      from gone g
      join (
        -- One that is named twice is one.
        select distinct on (e."messageId") e.*
        from jsonb_to_recordset(p_messages) as e
             ("messageId" uuid, reason integer, "lastReason" integer, error text, fingerprint text, parks boolean,
              untried boolean, "completedStatus" integer)) m on m."messageId" = g.message_id
      on conflict (source_table, source_id) do update
      -- It died again: what it was and why is renewed, what recovery has spent on it stays.
      set stream_id = excluded.stream_id, envelope = excluded.envelope, metadata = excluded.metadata, status = excluded.status,
          source_sequence = excluded.source_sequence, failure_reason = excluded.failure_reason,
          last_failure_reason = excluded.last_failure_reason, error_text = excluded.error_text,
          attempts_when_dlq = excluded.attempts_when_dlq, parks_stream = excluded.parks_stream,
          dead_lettered_at = excluded.dead_lettered_at, dead_lettered_by = excluded.dead_lettered_by,
          generation = excluded.generation, error_fingerprint = excluded.error_fingerprint,
          error_fingerprint_version = excluded.error_fingerprint_version,
          recovery_status = 0, next_recovery_at = null, recovered_at = null, operator_disposition = 0
      returning d.source_id, d.stream_id
    )
    select array_agg(source_id), array_agg(stream_id) into v_moved, v_streams from moved;
    perform whizbang.unblock_inbox_streams(v_streams);
  else
    raise exception 'move_to_dead_letters: % is neither wh_outbox nor wh_inbox', p_source_table
      using errcode = 'invalid_parameter_value';
  end if;
  if v_moved is not null then
    -- Rings once, while the recovery worker sleeps; it is awake for the rest of a mass dead-lettering.
    perform whizbang.ring_doorbell('deadletter');
  end if;
  return v_moved;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'note_dead_letter',
    checksum: '9aa84fbba763137d8b1312094af966e38cb9deeff9af304b3d38c7e734103c36',
    text: `-- Adds an operator's note, with time and name, below the notes that are there; past 100,000 characters the
-- oldest go.
create or replace function whizbang.note_dead_letter(p_dead_letter_id uuid, p_actor text, p_note text) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set operator_notes = right(concat_ws(e'\\n', operator_notes,
        format('%s %s: %s', to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), p_actor, p_note)), 100000),
      operator_actor = p_actor
  where dead_letter_id = p_dead_letter_id;
  return found;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'process_inbox_failures',
    checksum: 'b0564dd3ea8e572f1459d488db356124b2f0cd26600eb4981babc1d5d67fba57',
    text: `-- Records tries that failed. A row counts only while this instance still holds the very attempt it claimed.
--
-- Attempts left: adds the Failed bit and what was completed, keeps the error, gives up the lease, and schedules the next
-- try by exponential backoff (30 s doubled per attempt, 5 min at the most). attempts was counted by the claim and is not
-- touched. None left, or a permanent reason: the row goes to the dead letters, here and now. A row that cannot be moved
-- stays and is tried again later; it fails neither its neighbours nor this call.
--
-- p_failures: [{messageId, attempt, completedStatus, error, reason, delayMs, permanent, policy, fingerprint, untried}]; policy
-- is 0 block, 1 continue, 2 park. p_settings: {maxAttempts (null: for ever), baseSeconds, maxFactor, jitter, generation}.
-- Returns one row per failure: retry, dead, or stale when the row was no longer held.
-- For \`= any (array[…])\` in joins see complete_outbox_published.
create or replace function whizbang.process_inbox_failures(
  p_instance_id uuid, p_failures jsonb, p_settings jsonb default '{}'
) returns table (message_id uuid, outcome text)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_max_attempts integer := case when p_settings ? 'maxAttempts' then (p_settings ->> 'maxAttempts')::integer else 10 end;
  v_base interval := coalesce((p_settings ->> 'baseSeconds')::double precision, 30) * interval '1 second';
  v_max_factor double precision := coalesce((p_settings ->> 'maxFactor')::double precision, 10);
  v_jitter double precision := coalesce((p_settings ->> 'jitter')::double precision, 0);
  v_generation text := coalesce(p_settings ->> 'generation', '');
  v_dying jsonb;
  v_dead uuid[];
  v_message jsonb;
  v_problem text;
  v_passed uuid[];
begin
  select jsonb_agg(jsonb_build_object(
           'messageId', f."messageId", 'attempt', f.attempt, 'error', f.error, 'fingerprint', f.fingerprint,
           'completedStatus', f."completedStatus", 'untried', f.untried, 'parks', f.policy = 2,
           'reason', case when f.permanent then f.reason else 5 end, 'lastReason', f.reason))
    into v_dying
  from jsonb_to_recordset(p_failures) as f
       ("messageId" uuid, attempt integer, "completedStatus" integer, error text, reason integer, permanent boolean,
        policy integer, fingerprint text, untried boolean)
  where f.permanent or f.attempt >= v_max_attempts;
  if v_dying is not null then
    begin
      v_dead := whizbang.move_to_dead_letters('wh_inbox', p_instance_id, v_dying, v_generation);
    exception when others then
      v_problem := sqlerrm;
      -- One of them cannot be moved. Each by itself, so that the others can.
      for v_message in select * from jsonb_array_elements(v_dying) loop
        begin
          v_dead := v_dead || whizbang.move_to_dead_letters('wh_inbox', p_instance_id, jsonb_build_array(v_message), v_generation);
        exception when others then
          v_problem := sqlerrm;
          raise warning 'message % could not be moved to the dead letters: %', v_message ->> 'messageId', v_problem;
        end;
      end loop;
    end;
    return query select d, 'dead' from unnest(v_dead) as d;
  end if;
  return query
  with failed as (
    update whizbang.wh_inbox o
    set status = o.status | coalesce(f."completedStatus", 0) | 32768,
        error = f.error,
        failure_reason = coalesce(f.reason, 0),
        scheduled_for = v_now + case
          -- 30 days at the most: a delay beyond is a mistake of units, and must not fail the recording.
          when f."delayMs" is not null then least(greatest(f."delayMs", 0), 2592000000) * interval '1 millisecond'
          else v_base * least(power(2, least(o.attempts, 10)), v_max_factor) * (1 + v_jitter * (random() - 0.5)) end,
        passable = coalesce(f.policy = 1, false),
        instance_id = null,
        lease_expiry = null
    from jsonb_to_recordset(p_failures) as f
         ("messageId" uuid, attempt integer, "completedStatus" integer, error text, reason integer, "delayMs" double precision,
          policy integer)
    where o.message_id = any (array[f."messageId"]) and o.instance_id = p_instance_id and o.attempts = f.attempt and o.processed_at is null
    returning o.message_id
  )
  select f."messageId", case when d.message_id is null then 'stale' else 'retry' end
  from jsonb_to_recordset(p_failures) as f ("messageId" uuid)
  left join failed d on d.message_id = f."messageId"
  where f."messageId" <> all (coalesce(v_dead, '{}'));
  -- Policy \`continue\`: followers that were put behind it while it was in hand may pass it now.
  select array_agg(o.stream_id) into v_passed
  from whizbang.wh_inbox o
  where o.passable and o.stream_id is not null
    and o.message_id = any (array(select f."messageId" from jsonb_to_recordset(p_failures) as f ("messageId" uuid, policy integer)
                                  where f.policy = 1));
  if v_passed is not null then
    perform whizbang.unblock_inbox_streams(v_passed);
  end if;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'process_outbox_failures',
    checksum: '332f302dd588827e698f4810a20f48ad4ad17bb16f4811aa77b35981dd9aac8e',
    text: `-- Records tries that failed. A row counts only while this instance still holds the very attempt it claimed.
--
-- Attempts left: adds the Failed bit and what was completed, keeps the error, gives up the lease, and schedules the next
-- try by exponential backoff (30 s doubled per attempt, 5 min at the most). attempts was counted by the claim and is not
-- touched. None left, or a permanent reason: the row goes to the dead letters, here and now. A row that cannot be moved
-- stays and is tried again later; it fails neither its neighbours nor this call.
--
-- p_failures: [{messageId, attempt, completedStatus, error, reason, delayMs, permanent, policy, fingerprint, untried}]; policy
-- is 0 block, 1 continue, 2 park. p_settings: {maxAttempts (null: for ever), baseSeconds, maxFactor, jitter, generation}.
-- Returns one row per failure: retry, dead, or stale when the row was no longer held.
-- For \`= any (array[…])\` in joins see complete_outbox_published.
create or replace function whizbang.process_outbox_failures(
  p_instance_id uuid, p_failures jsonb, p_settings jsonb default '{}'
) returns table (message_id uuid, outcome text)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_max_attempts integer := case when p_settings ? 'maxAttempts' then (p_settings ->> 'maxAttempts')::integer else 10 end;
  v_base interval := coalesce((p_settings ->> 'baseSeconds')::double precision, 30) * interval '1 second';
  v_max_factor double precision := coalesce((p_settings ->> 'maxFactor')::double precision, 10);
  v_jitter double precision := coalesce((p_settings ->> 'jitter')::double precision, 0);
  v_generation text := coalesce(p_settings ->> 'generation', '');
  v_dying jsonb;
  v_dead uuid[];
  v_message jsonb;
  v_problem text;
  v_passed uuid[];
begin
  select jsonb_agg(jsonb_build_object(
           'messageId', f."messageId", 'attempt', f.attempt, 'error', f.error, 'fingerprint', f.fingerprint,
           'completedStatus', f."completedStatus", 'untried', f.untried, 'parks', f.policy = 2,
           'reason', case when f.permanent then f.reason else 5 end, 'lastReason', f.reason))
    into v_dying
  from jsonb_to_recordset(p_failures) as f
       ("messageId" uuid, attempt integer, "completedStatus" integer, error text, reason integer, permanent boolean,
        policy integer, fingerprint text, untried boolean)
  where f.permanent or f.attempt >= v_max_attempts;
  if v_dying is not null then
    begin
      v_dead := whizbang.move_to_dead_letters('wh_outbox', p_instance_id, v_dying, v_generation);
    exception when others then
      v_problem := sqlerrm;
      -- One of them cannot be moved. Each by itself, so that the others can.
      for v_message in select * from jsonb_array_elements(v_dying) loop
        begin
          v_dead := v_dead || whizbang.move_to_dead_letters('wh_outbox', p_instance_id, jsonb_build_array(v_message), v_generation);
        exception when others then
          v_problem := sqlerrm;
          raise warning 'message % could not be moved to the dead letters: %', v_message ->> 'messageId', v_problem;
        end;
      end loop;
    end;
    return query select d, 'dead' from unnest(v_dead) as d;
  end if;
  return query
  with failed as (
    update whizbang.wh_outbox o
    set status = o.status | coalesce(f."completedStatus", 0) | 32768,
        error = f.error,
        failure_reason = coalesce(f.reason, 0),
        scheduled_for = v_now + case
          -- 30 days at the most: a delay beyond is a mistake of units, and must not fail the recording.
          when f."delayMs" is not null then least(greatest(f."delayMs", 0), 2592000000) * interval '1 millisecond'
          else v_base * least(power(2, least(o.attempts, 10)), v_max_factor) * (1 + v_jitter * (random() - 0.5)) end,
        passable = coalesce(f.policy = 1, false),
        instance_id = null,
        lease_expiry = null
    from jsonb_to_recordset(p_failures) as f
         ("messageId" uuid, attempt integer, "completedStatus" integer, error text, reason integer, "delayMs" double precision,
          policy integer)
    where o.message_id = any (array[f."messageId"]) and o.instance_id = p_instance_id and o.attempts = f.attempt and o.processed_at is null
    returning o.message_id
  )
  select f."messageId", case when d.message_id is null then 'stale' else 'retry' end
  from jsonb_to_recordset(p_failures) as f ("messageId" uuid)
  left join failed d on d.message_id = f."messageId"
  where f."messageId" <> all (coalesce(v_dead, '{}'));
  -- Policy \`continue\`: followers that were put behind it while it was in hand may pass it now.
  select array_agg(o.stream_id) into v_passed
  from whizbang.wh_outbox o
  where o.passable and o.stream_id is not null
    and o.message_id = any (array(select f."messageId" from jsonb_to_recordset(p_failures) as f ("messageId" uuid, policy integer)
                                  where f.policy = 1));
  if v_passed is not null then
    perform whizbang.unblock_outbox_streams(v_passed);
  end if;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'purge_completed_messages',
    checksum: '2b7be31fb583a9c11810045ad3a0a2bc3f94768c966eab7b277e9c5948faf313',
    text: `-- Deletes processed rows that were kept (retainCompleted) and are older than p_days, p_limit of each table at a time;
-- returns the larger of the two numbers. Served by idx_outbox_processed and idx_inbox_processed.
create or replace function whizbang.purge_completed_messages(p_days double precision, p_limit integer) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_outbox integer;
  v_inbox integer;
begin
  delete from whizbang.wh_outbox where message_id = any (array(
    select o.message_id from whizbang.wh_outbox o
    where o.processed_at < clock_timestamp() - p_days * interval '1 day' order by o.processed_at limit p_limit));
  get diagnostics v_outbox = row_count;
  delete from whizbang.wh_inbox where message_id = any (array(
    select i.message_id from whizbang.wh_inbox i
    where i.processed_at < clock_timestamp() - p_days * interval '1 day' order by i.processed_at limit p_limit));
  get diagnostics v_inbox = row_count;
  return greatest(v_outbox, v_inbox);
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'purge_message_deduplication',
    checksum: '11156cccb219f9a4fa07a599622ac5e791e428825bf60a9773fb8a2560c4c670',
    text: `-- Forgets received ids older than p_days, p_limit at a time, so that no purge holds locks or bloats the log for long.
-- Returns how many were forgotten: call again while it is p_limit.
create or replace function whizbang.purge_message_deduplication(p_days double precision, p_limit integer) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_count integer;
begin
  delete from whizbang.wh_message_deduplication
  where message_id = any (array(
    select d.message_id from whizbang.wh_message_deduplication d
    where d.first_seen_at < clock_timestamp() - p_days * interval '1 day'
    order by d.first_seen_at limit p_limit));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'record_heartbeat',
    checksum: '8a603f0e64f5b967a54e4b8096f9ef9546faf870f0b7eb5737076df4a5044dec',
    text: `-- Registers an instance or renews its entry, forgets instances that have been silent for p_stale_seconds, and with them
-- the doorbells that they left armed. A null p_stale_seconds forgets nobody. Returns the forgotten ones (null for none); release_dead_instances() ends their leases.
create or replace function whizbang.record_heartbeat(
  p_instance_id uuid, p_service_name text, p_host_name text, p_process_id integer, p_metadata json default null,
  p_stale_seconds double precision default 35
) returns uuid[]
language plpgsql volatile
as $$
declare
  v_dead uuid[];
begin
  insert into whizbang.wh_service_instances as i (instance_id, service_name, host_name, process_id, metadata)
  values (p_instance_id, p_service_name, p_host_name, p_process_id, p_metadata)
  on conflict (instance_id) do update set last_heartbeat_at = clock_timestamp(), metadata = coalesce(excluded.metadata, i.metadata);
  -- SKIP LOCKED: two that come back from a long silence together would delete each other's entry, and deadlock.
  with dead as (
    delete from whizbang.wh_service_instances
    where instance_id in (
      select i.instance_id from whizbang.wh_service_instances i
      where i.last_heartbeat_at < clock_timestamp() - p_stale_seconds * interval '1 second'
      for update skip locked)
    returning instance_id
  )
  select array_agg(instance_id) into v_dead from dead;
  delete from whizbang.wh_doorbells d
  where not exists (select 1 from whizbang.wh_service_instances i where i.instance_id = d.instance_id);
  return v_dead;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'recover_dead_letter',
    checksum: '9b0d832f6c77ff532eb76d37f8d4abbb537c8f23cf9b57469bf49349f39c7f3e',
    text: `-- Brings a dead letter back to its table, whole: same id, place in its stream, payload, metadata, scope, status and time;
-- attempts begin at 0 again. One statement decides who does it: false when the row is recovered, held or given up, or has
-- no envelope to bring back. A message that is in its table already counts as brought back, and is left as it is.
create or replace function whizbang.recover_dead_letter(p_dead_letter_id uuid) returns boolean
language plpgsql volatile
as $$
declare
  v_letter whizbang.wh_dead_letters;
begin
  select * into v_letter from whizbang.wh_dead_letters d
  where d.dead_letter_id = p_dead_letter_id and d.recovered_at is null and d.recovery_status in (0, 1)
    and d.operator_disposition not in (2, 3) and d.envelope is not null
  for update;
  if not found then
    return false;
  end if;
  if v_letter.source_table = 'wh_outbox' then
    insert into whizbang.wh_outbox
      (message_id, sequence, destination, message_type, envelope_type, event_data, metadata, scope, stream_id, is_event, flags,
       status, failure_reason, error, body_bytes, created_at)
    overriding system value
    values (v_letter.source_id, v_letter.source_sequence, v_letter.destination, v_letter.message_type, v_letter.envelope_type,
            v_letter.envelope, v_letter.metadata, v_letter.scope, v_letter.stream_id, v_letter.is_event, v_letter.flags,
            v_letter.status, coalesce(v_letter.last_failure_reason, 99), v_letter.error_text, v_letter.body_bytes,
            coalesce(v_letter.source_created_at, clock_timestamp()))
    on conflict (message_id) do nothing;
  else
    insert into whizbang.wh_inbox
      (message_id, sequence, handler_name, message_type, destination, event_data, metadata, scope, stream_id, is_event, flags,
       status, failure_reason, error, body_bytes, received_at)
    overriding system value
    values (v_letter.source_id, v_letter.source_sequence, v_letter.handler_name, v_letter.message_type, v_letter.destination,
            v_letter.envelope, v_letter.metadata, v_letter.scope, v_letter.stream_id, v_letter.is_event, v_letter.flags,
            v_letter.status, coalesce(v_letter.last_failure_reason, 99), v_letter.error_text, v_letter.body_bytes,
            coalesce(v_letter.source_created_at, clock_timestamp()))
    on conflict (message_id) do nothing;
  end if;
  update whizbang.wh_dead_letters d
  set recovery_status = 3, recovery_attempts = d.recovery_attempts + 1, last_recovery_at = clock_timestamp(),
      recovered_at = clock_timestamp(), next_recovery_at = null, parks_stream = false, operator_disposition = 0
  where d.dead_letter_id = p_dead_letter_id;
  perform whizbang.ring_doorbell(case v_letter.source_table when 'wh_outbox' then 'outbox' else 'inbox' end);
  return true;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'recover_dead_letters',
    checksum: 'c66133c635883d5f5e0690d31c8a7c33cbf0f4de3325d132914cca2b9179fc27',
    text: `-- Brings dead letters back together, in one transaction and in the order given: how those of one stream return (TailAware).
-- Returns the ids of those that came back.
create or replace function whizbang.recover_dead_letters(p_dead_letter_ids uuid[]) returns setof uuid
language plpgsql volatile
as $$
declare
  v_id uuid;
begin
  foreach v_id in array p_dead_letter_ids loop
    if whizbang.recover_dead_letter(v_id) then
      return next v_id;
    end if;
  end loop;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'release_dead_instances',
    checksum: '9e02a7279fcbc9c26a80312634a7863f731e3f2c6921738c8dcf4fb70cd9ea71',
    text: `-- Ends the leases of instances that have stopped beating, without waiting for them to run out. Called by the one instance
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
`,
  },
  {
    kind: 'function',
    name: 'release_duty',
    checksum: '8a848549c63f32eae9e980ca91b502b29683d2060712d06535d3da63cc79a443',
    text: `-- Gives the duty up and wakes the others, one of which takes it over at once. Always notifies: those who wait for the duty
-- arm no doorbell, and it is one notification in the life of a process.
create or replace function whizbang.release_duty(p_duty text, p_instance_id uuid) returns void
language plpgsql volatile
as $$
begin
  delete from whizbang.wh_duties where duty = p_duty and instance_id = p_instance_id;
  if found then
    perform pg_notify(whizbang.wake_channel('deadletter'), '');
  end if;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'release_inbox',
    checksum: '4cd32359e6a2f6131857d8bfc6d78efee98824bf4c6a3faa1008a95e6c68a482',
    text: `-- Gives back rows that were claimed and never tried: the lease is cleared, the status stays, and so that attempts counts
-- tries and nothing else, the attempt is given back. Fenced like a completion. Returns the ids no longer held.
-- For \`= any (array[…])\` in joins see complete_outbox_published.
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
`,
  },
  {
    kind: 'function',
    name: 'release_outbox',
    checksum: '54a85d8144bf254aea0b51b7bca869f1e98e120415f62dab08b4ad035cf7ce91',
    text: `-- Gives back rows that were claimed and never tried: the lease is cleared, the status stays, and so that attempts counts
-- tries and nothing else, the attempt is given back. Fenced like a completion. Returns the ids no longer held.
-- For \`= any (array[…])\` in joins see complete_outbox_published.
create or replace function whizbang.release_outbox(p_instance_id uuid, p_message_ids uuid[], p_attempts integer[])
returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_done uuid[];
begin
  with done as (
    update whizbang.wh_outbox o
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
`,
  },
  {
    kind: 'function',
    name: 'renew_inbox_leases',
    checksum: '944180e82bf0140ac01aa6ee631d0b31350056c43c55bf7908ef0ae41fb0d9eb',
    text: `-- Extends the leases of rows in hand by p_lease_seconds from now. Fenced like a completion. Returns the ids no longer held.
-- For \`= any (array[…])\` in joins see complete_outbox_published.
create or replace function whizbang.renew_inbox_leases(
  p_instance_id uuid, p_message_ids uuid[], p_attempts integer[], p_lease_seconds double precision
) returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_done uuid[];
begin
  with done as (
    update whizbang.wh_inbox o
    set lease_expiry = clock_timestamp() + p_lease_seconds * interval '1 second'
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
`,
  },
  {
    kind: 'function',
    name: 'renew_outbox_leases',
    checksum: 'd491980deee314fe0184f752c896b2363a102eb730d8ab2e979345c9dbc5006c',
    text: `-- Extends the leases of rows in hand by p_lease_seconds from now. Fenced like a completion. Returns the ids no longer held.
-- For \`= any (array[…])\` in joins see complete_outbox_published.
create or replace function whizbang.renew_outbox_leases(
  p_instance_id uuid, p_message_ids uuid[], p_attempts integer[], p_lease_seconds double precision
) returns uuid[]
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_done uuid[];
begin
  with done as (
    update whizbang.wh_outbox o
    set lease_expiry = clock_timestamp() + p_lease_seconds * interval '1 second'
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
`,
  },
  {
    kind: 'function',
    name: 'report_failures',
    checksum: 'a4750b1a066100c879de6c1fd5685d540e51b256e4c2f9d07bd3b249859ed87f',
    text: `-- Records failures of either table; see process_outbox_failures and process_inbox_failures.
create or replace function whizbang.report_failures(
  p_category text, p_instance_id uuid, p_failures jsonb, p_settings jsonb default '{}'
) returns table (message_id uuid, outcome text)
language plpgsql volatile
as $$
begin
  case p_category
    when 'outbox' then
      return query select f.message_id, f.outcome from whizbang.process_outbox_failures(p_instance_id, p_failures, p_settings) f;
    when 'inbox' then
      return query select f.message_id, f.outcome from whizbang.process_inbox_failures(p_instance_id, p_failures, p_settings) f;
    else
      raise exception 'report_failures: % is neither outbox nor inbox', p_category using errcode = 'invalid_parameter_value';
  end case;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'reset_dead_letters_for_generation',
    checksum: '73ded8945f3c5009b3a39baf7303188ce4a0623429e427f53399af633afe4e7c',
    text: `-- A new build gets one try at every dead letter that it has not had: due at once, pending again, one attempt granted beyond
-- the budget. Leaves out what is given up and what an operator holds for ever; what is held for review is included.
-- Idempotent: whichever instance is first does it. Returns how many rows it scheduled.
create or replace function whizbang.reset_dead_letters_for_generation(p_generation text) returns integer
language plpgsql volatile
as $$
declare
  v_count integer;
begin
  update whizbang.wh_dead_letters
  set next_recovery_at = clock_timestamp(), recovery_status = 0,
      -- One that was granted and not used yet is enough.
      granted_attempts = granted_attempts + case when operator_disposition = 1 then 0 else 1 end,
      operator_disposition = 1,
      retried_on_generations = retried_on_generations || p_generation
  where recovered_at is null and recovery_status <> 4 and operator_disposition not in (2, 3)
    and envelope is not null and generation <> p_generation
    and not (p_generation = any (retried_on_generations));
  get diagnostics v_count = row_count;
  if v_count > 0 then
    perform whizbang.ring_doorbell('deadletter');
  end if;
  return v_count;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'retry_dead_letter',
    checksum: 'fa68eb0d12e5a8e10cf2fe2244a450b482e2850270241b80e08018be0035b587',
    text: `-- An operator's retry: due at once, one attempt granted beyond the budget, whatever held it. False when it is recovered
-- already or has no envelope to bring back.
create or replace function whizbang.retry_dead_letter(p_dead_letter_id uuid, p_actor text) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 0, next_recovery_at = clock_timestamp(),
      -- One that was granted and not used yet is enough.
      granted_attempts = granted_attempts + case when operator_disposition = 1 then 0 else 1 end,
      operator_disposition = 1, operator_actor = p_actor
  where dead_letter_id = p_dead_letter_id and recovered_at is null and envelope is not null;
  if not found then
    return false;
  end if;
  perform whizbang.ring_doorbell('deadletter');
  return true;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'ring_doorbell',
    checksum: '1077e66887cd821eb9fb29ed049220de8e6160eb78488f9fa8607c31e63db908',
    text: `-- Wakes the sleepers of a channel, if there are any. NOTIFY takes a lock on the whole database until the commit is on
-- disk (32 writers fell from 2,430 to 462 commits/s), so it is issued only while somebody sleeps.
--
-- The caller has written its rows before. Under READ COMMITTED the look at the doorbells is a later snapshot than the
-- sleeper's arming, or the sleeper's look for work is later than our commit. Above READ COMMITTED the look may be older
-- than an arming that has committed meanwhile: such a writer always rings.
create or replace function whizbang.ring_doorbell(p_channel text) returns void
language plpgsql volatile
as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
     or exists (select 1 from whizbang.wh_doorbells where channel = p_channel)
  then
    perform pg_notify(whizbang.wake_channel(p_channel), '');
  end if;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'schedule_next_dead_letter_attempt',
    checksum: '4aac83cc0bf4e4e801c1e2ed037a8152d78e09a84437a9fb5c16a76ef034b5b0',
    text: `-- Not before this time. Returns false when it is recovered already, held or given up.
create or replace function whizbang.schedule_next_dead_letter_attempt(p_dead_letter_id uuid, p_next timestamptz) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 0, next_recovery_at = p_next
  where dead_letter_id = p_dead_letter_id and recovered_at is null and recovery_status in (0, 1);
  return found;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'service_status',
    checksum: 'd4e87535f4e82aaa11aa9ab38381bb053d3a1fe4ed5a3cda43f7ef931bcaaed5',
    text: `-- How a service stands, in rows of category, name and value. Counts stop at 5,000 and read only the partial indexes, so
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
`,
  },
  {
    kind: 'function',
    name: 'store_inbox_messages',
    checksum: 'c55af23eab109f80c91f1036fb527d6568d1021637b5523a653c217d1263c4cb',
    text: `-- Stores received messages in the order of the arrays and wakes a sleeping dispatcher. A message whose id was received
-- before is left out. Returns the ids that were new.
--
-- The ids are entered in sorted order, so that two receivers with overlapping batches wait for each other instead of
-- deadlocking; the rows are inserted afterwards in the broker's order, which is what \`sequence\` records.
create or replace function whizbang.store_inbox_messages(
  p_message_ids uuid[], p_handler_names text[], p_message_types text[], p_destinations text[], p_event_data text[],
  p_metadata text[], p_stream_ids uuid[]
) returns setof uuid
language plpgsql volatile
as $$
declare
  v_new uuid[];
begin
  with fresh as (
    insert into whizbang.wh_message_deduplication (message_id)
    select distinct i.message_id from unnest(p_message_ids) as i (message_id) order by 1
    on conflict (message_id) do nothing
    returning message_id
  )
  select array_agg(message_id) into v_new from fresh;
  if v_new is null then
    return;
  end if;
  insert into whizbang.wh_inbox
    (message_id, handler_name, message_type, destination, event_data, metadata, stream_id, body_bytes)
  select m.message_id, m.handler_name, m.message_type, m.destination, m.event_data::json, m.metadata::json, m.stream_id,
         octet_length(m.event_data)
  from unnest(p_message_ids, p_handler_names, p_message_types, p_destinations, p_event_data, p_metadata, p_stream_ids)
       with ordinality as m (message_id, handler_name, message_type, destination, event_data, metadata, stream_id, position)
  where m.message_id in (select unnest(v_new))
  order by m.position
  on conflict (message_id) do nothing;
  perform whizbang.ring_doorbell('inbox');
  return query select unnest(v_new);
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'store_outbox_messages',
    checksum: 'f8a65d6f196fe87f8a05e96021daee0f73d8ba70ed64c454ef3ae535013ce783',
    text: `-- Stores messages in the caller's transaction, in the order of the arrays, and wakes a sleeping publisher.
-- All arrays have the same length; stream_ids and scheduled_for may hold nulls. A message id that is already there is
-- left alone. Returns how many rows were stored.
create or replace function whizbang.store_outbox_messages(
  p_message_ids uuid[], p_destinations text[], p_message_types text[], p_event_data text[], p_metadata text[],
  p_stream_ids uuid[], p_scheduled_for timestamptz[]
) returns integer
language plpgsql volatile
as $$
declare
  v_stored integer;
begin
  if '00000000-0000-0000-0000-000000000000' = any (p_stream_ids) then
    raise exception 'EmptyStreamId: the stream id is the all-zero UUID'
      using errcode = 'check_violation', hint = 'Use null for a message without a stream.';
  end if;
  if cardinality(p_message_ids) = 1 then
    -- What most transactions store: as VALUES it takes a third less of the server's time than as a set of one.
    insert into whizbang.wh_outbox
      (message_id, destination, message_type, event_data, metadata, stream_id, scheduled_for, body_bytes)
    values (p_message_ids[1], p_destinations[1], p_message_types[1], p_event_data[1]::json, p_metadata[1]::json,
            p_stream_ids[1], p_scheduled_for[1], octet_length(p_event_data[1]))
    on conflict (message_id) do nothing;
  else
    insert into whizbang.wh_outbox
      (message_id, destination, message_type, event_data, metadata, stream_id, scheduled_for, body_bytes)
    select m.message_id, m.destination, m.message_type, m.event_data::json, m.metadata::json, m.stream_id, m.scheduled_for,
           octet_length(m.event_data)
    from unnest(p_message_ids, p_destinations, p_message_types, p_event_data, p_metadata, p_stream_ids, p_scheduled_for)
         with ordinality as m (message_id, destination, message_type, event_data, metadata, stream_id, scheduled_for, position)
    order by m.position
    on conflict (message_id) do nothing;
  end if;
  get diagnostics v_stored = row_count;
  if v_stored > 0 then
    perform whizbang.ring_doorbell('outbox');
  end if;
  return v_stored;
end
$$;
-- The way in for every language: select whizbang.store_outbox_messages('[{"messageType": …, "destination": …, "payload": …}]').
-- Members: messageType, destination, payload (required); messageId (a UUIDv7 is made when it is missing), streamId (UUID),
-- streamKey (the text that the stream id was made of), scheduledFor, headers (an object of strings), correlationId,
-- causationId, traceparent. One object may stand for an array of one. A payload keeps its text; one with \\u0000 or half a
-- surrogate pair, which PostgreSQL refuses to take apart, can only be stored through the arrays above.
create or replace function whizbang.store_outbox_messages(p_messages json) returns integer
language plpgsql volatile
as $$
declare
  v_messages json := case json_typeof(p_messages) when 'array' then p_messages else json_build_array(p_messages) end;
  v_problem text;
begin
  select format('message %s: %s', p.position, p.problem) into v_problem
  from (
    select m.position, case
             when json_typeof(m.value) is distinct from 'object' then 'is not an object'
             when coalesce(m.value ->> 'messageType', '') = '' then 'messageType is missing'
             when coalesce(m.value ->> 'destination', '') = '' then 'destination is missing'
             when m.value -> 'payload' is null then 'payload is missing'
             -- The stream's id orders the messages here, the key at the broker; UUIDv5 is not to be had in SQL.
             when m.value ->> 'streamKey' is not null and m.value ->> 'streamId' is null
               then 'streamKey is given without streamId'
             when json_typeof(m.value -> 'headers') = 'object' then (
               select 'headers must be an object of strings'
               from json_each(m.value -> 'headers') h where json_typeof(h.value) <> 'string' limit 1)
             when json_typeof(m.value -> 'headers') <> 'null' then 'headers must be an object of strings'
           end as problem
    from json_array_elements(v_messages) with ordinality as m (value, position)
  ) p
  where p.problem is not null
  order by p.position limit 1;
  if v_problem is not null then
    raise exception 'store_outbox_messages: %', v_problem using errcode = 'invalid_parameter_value';
  end if;
  return (
    select whizbang.store_outbox_messages(
      array_agg(coalesce((m.value ->> 'messageId')::uuid, whizbang.uuid_v7()) order by m.position),
      array_agg(m.value ->> 'destination' order by m.position),
      array_agg(m.value ->> 'messageType' order by m.position),
      array_agg((m.value -> 'payload')::text order by m.position),
      array_agg(json_strip_nulls(json_build_object(
        'streamKey', m.value ->> 'streamKey', 'headers', m.value -> 'headers',
        'correlationId', m.value ->> 'correlationId', 'causationId', m.value ->> 'causationId',
        'traceparent', m.value ->> 'traceparent'))::text order by m.position),
      array_agg((m.value ->> 'streamId')::uuid order by m.position),
      array_agg((m.value ->> 'scheduledFor')::timestamptz order by m.position))
    from json_array_elements(v_messages) with ordinality as m (value, position));
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'store_undecodable_deliveries',
    checksum: '8a2b17acbeee1bfa17294c1e37c9c7cdfbe4fb3979e28eca3f243cce923b3862',
    text: `-- Keeps deliveries that could not be read, bytes and headers, in the dead letters, so that acknowledging them loses nothing.
-- The source id is derived from the content by the caller: a redelivery finds its row and adds none.
create or replace function whizbang.store_undecodable_deliveries(
  p_source_ids uuid[], p_message_types text[], p_destinations text[], p_bodies bytea[], p_metadata text[], p_errors text[],
  p_failure_reason integer, p_generation text, p_instance_id uuid
) returns integer
language plpgsql volatile
as $$
declare
  v_stored integer;
begin
  with stored as (
    insert into whizbang.wh_dead_letters
      (dead_letter_id, source_table, source_id, message_type, destination, raw_body, metadata, failure_reason,
       last_failure_reason, error_text, attempts_when_dlq, generation, dead_lettered_by)
    select whizbang.uuid_v7(), 'wh_inbox', d.source_id, d.message_type, d.destination, d.body, d.metadata::json, p_failure_reason,
           p_failure_reason, d.error, 0, p_generation, p_instance_id
    from unnest(p_source_ids, p_message_types, p_destinations, p_bodies, p_metadata, p_errors)
         as d (source_id, message_type, destination, body, metadata, error)
    on conflict (source_table, source_id) do nothing
    returning 1
  )
  select count(*) into v_stored from stored;
  if v_stored > 0 then
    perform whizbang.ring_doorbell('deadletter');
  end if;
  return v_stored;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'unblock_inbox_streams',
    checksum: '0f37cf5020422566884d015f2007289f4e264b83256cc5f24a262bbc584f90c4',
    text: `-- Brings followers back into the indexes that claims read, when rows of their streams have gone: tops up a stream that
-- has fewer than 32 rows to be claimed to 64. A dispatcher keeps about as many of one stream in hand, so that a stream of
-- a million is neither rewritten at once nor handed back and forth.
create or replace function whizbang.unblock_inbox_streams(p_stream_ids uuid[]) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_unblocked integer := 0;
begin
  -- The index of blocked rows is empty in a healthy system: one probe and out.
  if exists (select 1 from whizbang.wh_inbox where blocked) then
    update whizbang.wh_inbox o
    set blocked = false
    where o.message_id = any (array(
      select f.message_id
      from (select distinct s.stream_id from unnest(p_stream_ids) as s (stream_id) where s.stream_id is not null) s
      -- Most streams have nobody to bring back: one probe each.
      cross join lateral (
        select b.stream_id from whizbang.wh_inbox b
        where b.blocked and b.stream_id = s.stream_id
        order by b.sequence
        limit 1
      ) w
      cross join lateral (
        select count(*) as ahead
        from (select 1 from whizbang.wh_inbox e
              where e.stream_id = w.stream_id and e.processed_at is null and not e.blocked
              order by e.sequence limit 32) a
      ) n
      cross join lateral (
        select b.message_id from whizbang.wh_inbox b
        where n.ahead < 32 and b.blocked and b.stream_id = s.stream_id
        order by b.sequence
        limit 64 - n.ahead
      ) f));
    get diagnostics v_unblocked = row_count;
  end if;
  return v_unblocked;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'unblock_outbox_streams',
    checksum: 'b1cc2d3f1d7cdc241373081d9f5c933638f2f7ba9ad644e2d2803fd6c0232a4c',
    text: `-- Brings followers of a head that has gone back into the indexes that claims read: twice as many as rows went, at least
-- one, so that a freed stream of a million speeds up batch by batch instead of being rewritten at once.
create or replace function whizbang.unblock_outbox_streams(p_stream_ids uuid[]) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_unblocked integer := 0;
begin
  -- The index of blocked rows is empty in a healthy system: one probe and out.
  if exists (select 1 from whizbang.wh_outbox where blocked) then
    update whizbang.wh_outbox o
    set blocked = false
    where o.message_id = any (array(
      select f.message_id
      from (select s.stream_id, count(*) as gone from unnest(p_stream_ids) as s (stream_id)
            where s.stream_id is not null group by s.stream_id) s
      cross join lateral (
        select b.message_id from whizbang.wh_outbox b
        where b.blocked and b.stream_id = s.stream_id
        order by b.sequence
        limit 2 * s.gone
      ) f));
    get diagnostics v_unblocked = row_count;
  end if;
  return v_unblocked;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'unblock_stranded_inbox_streams',
    checksum: 'd000ab7c6349fb5f2f2124c95b997bf56ce20e3ad5ef2847fd8528df3690e9f4',
    text: `-- The net below unblock_inbox_streams: frees streams whose blocked rows have no living head, as happens when a head is
-- deleted or parked by hand. Walks the distinct streams of the index of blocked rows, up to p_limit of them from after
-- p_after on. Returns how many rows were freed, and where the next call goes on: null for the beginning, when the end was
-- reached.
create or replace function whizbang.unblock_stranded_inbox_streams(
  p_limit integer default 1000, p_after uuid default null, out freed integer, out next_after uuid
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  -- No stream has this id.
  v_after uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
  with recursive blocked_stream as (
    (select b.stream_id, b.sequence, 1 as position from whizbang.wh_inbox b
     where b.blocked and b.stream_id > v_after order by b.stream_id, b.sequence limit 1)
    union all
    select n.stream_id, n.sequence, s.position + 1
    from blocked_stream s
    cross join lateral (
      select b.stream_id, b.sequence from whizbang.wh_inbox b
      where b.blocked and b.stream_id > s.stream_id
      order by b.stream_id, b.sequence limit 1
    ) n
    where s.position < p_limit
  ),
  unblocked as (
    update whizbang.wh_inbox o
    set blocked = false
    where o.message_id = any (array(
      select f.message_id
      from blocked_stream s
      cross join lateral (
        select b.message_id from whizbang.wh_inbox b
        where b.blocked and b.stream_id = s.stream_id order by b.sequence limit 1
      ) f
      where not exists (
        select 1 from whizbang.wh_inbox e
        where e.stream_id = s.stream_id and e.sequence < s.sequence and e.processed_at is null and not e.blocked
          and (e.scheduled_for is null or e.scheduled_for < 'infinity'))))
    returning 1
  )
  select (select count(*) from unblocked)::integer, (select s.stream_id from blocked_stream s where s.position = p_limit)
    into freed, next_after;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'unblock_stranded_outbox_streams',
    checksum: '5543b55eb8687021eb765d95e4b5c8a44b416791635177365e6cacd5e915b524',
    text: `-- The net below unblock_outbox_streams: frees streams whose blocked rows have no living head, as happens when a head is
-- deleted or parked by hand. Walks the distinct streams of the index of blocked rows, up to p_limit of them from after
-- p_after on. Returns how many rows were freed, and where the next call goes on: null for the beginning, when the end was
-- reached.
create or replace function whizbang.unblock_stranded_outbox_streams(
  p_limit integer default 1000, p_after uuid default null, out freed integer, out next_after uuid
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  -- No stream has this id.
  v_after uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
  with recursive blocked_stream as (
    (select b.stream_id, b.sequence, 1 as position from whizbang.wh_outbox b
     where b.blocked and b.stream_id > v_after order by b.stream_id, b.sequence limit 1)
    union all
    select n.stream_id, n.sequence, s.position + 1
    from blocked_stream s
    cross join lateral (
      select b.stream_id, b.sequence from whizbang.wh_outbox b
      where b.blocked and b.stream_id > s.stream_id
      order by b.stream_id, b.sequence limit 1
    ) n
    where s.position < p_limit
  ),
  unblocked as (
    update whizbang.wh_outbox o
    set blocked = false
    where o.message_id = any (array(
      select f.message_id
      from blocked_stream s
      cross join lateral (
        select b.message_id from whizbang.wh_outbox b
        where b.blocked and b.stream_id = s.stream_id order by b.sequence limit 1
      ) f
      where not exists (
        select 1 from whizbang.wh_outbox e
        where e.stream_id = s.stream_id and e.sequence < s.sequence and e.processed_at is null and not e.blocked
          and (e.scheduled_for is null or e.scheduled_for < 'infinity'))))
    returning 1
  )
  select (select count(*) from unblocked)::integer, (select s.stream_id from blocked_stream s where s.position = p_limit)
    into freed, next_after;
end
$$;
`,
  },
  {
    kind: 'function',
    name: 'uuid_v7',
    checksum: '104ac6838890a29af82812dee59f3c56bab8a5089f7ceddb566787e6d23c4429',
    text: `-- A UUIDv7 (RFC 9562) for rows that plain SQL stores without an id. PostgreSQL has its own from version 18 on only.
create or replace function whizbang.uuid_v7() returns uuid
language sql volatile parallel safe
as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
              placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
              from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;
`,
  },
  {
    kind: 'function',
    name: 'wake_channel',
    checksum: '526d80b96c4d7c28f52f104df715a7ed1d149f9ab26a059011147b3a968b2bec',
    text: `-- Channels belong to the whole database; the schema's name is hashed into ours so that two schemas never wake each other
-- and a name of 63 bytes still fits.
create or replace function whizbang.wake_channel(p_channel text) returns text
language sql immutable parallel safe
as $$ select 'wh_' || p_channel || '_' || left(md5('whizbang'), 16) $$;
`,
  },
  {
    kind: 'view',
    name: 'wh_active_streams',
    checksum: '5b3d139a29db950716dd12a60de498bcf8030f9ebc021040f31231f8f699cc04',
    text: `-- Which instance holds which stream right now, derived from the leases: nobody owns a stream beyond them.
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
`,
  },
];
