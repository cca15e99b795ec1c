import { randomUUID } from 'node:crypto';

import { MessageFailureReason } from '@whizbang/core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import {
  type OperatorsDatabase,
  RecordingLogger,
  insertRows,
  minutesAgo,
  operatorsDatabase,
  service,
} from './service.js';

const cycleEnded = 'A maintenance cycle ended';
const daysAgo = (days: number) => minutesAgo(days * 24 * 60);

let database: OperatorsDatabase;
beforeAll(async () => {
  database = await operatorsDatabase();
});
afterAll(() => database.close());
beforeEach(() => database.empty());

const options = { publisher: { enabled: false }, deadLetters: { enabled: false } };

async function janitor(logger = new RecordingLogger(), maintenance = {}) {
  const whizbang = await service(database.url, { logger, ...options, maintenance });
  await whizbang.start();
  return whizbang;
}

type Janitor = Awaited<ReturnType<typeof janitor>>;
const isElected = async (one: Janitor) => (await one.status()).elected;

async function oneCycle(maintenance = {}): Promise<RecordingLogger> {
  const logger = new RecordingLogger();
  const whizbang = await janitor(logger, maintenance);
  await waitFor(() => logger.count(cycleEnded) >= 1, { message: 'a maintenance cycle', timeoutMs: 30_000 });
  await whizbang.stop();
  return logger;
}

async function rememberIds(amount: number, at: Date): Promise<void> {
  await database.query(
    'insert into whizbang.wh_message_deduplication select gen_random_uuid(), $2 from generate_series(1, $1::integer)',
    [amount, at],
  );
}

const countOf = async (table: string) =>
  (await database.query<{ count: number }>(`select count(*)::integer as count from whizbang.${table}`))[0]?.count;

describe('maintenance', () => {
  test('forgets received ids and completed rows that are old enough, and nothing else', async () => {
    await rememberIds(2_500, daysAgo(31));
    await rememberIds(3, daysAgo(29));
    for (const table of ['wh_outbox', 'wh_inbox'] as const) {
      await insertRows(database, table, [
        { processed_at: daysAgo(8) },
        { processed_at: daysAgo(6) },
        { [table === 'wh_outbox' ? 'created_at' : 'received_at']: daysAgo(400) },
      ]);
    }
    await oneCycle();
    expect(await countOf('wh_message_deduplication')).toBe(3);
    expect(await countOf('wh_outbox')).toBe(2);
    expect(await countOf('wh_inbox')).toBe(2);
  });

  test('keeps to other retentions', async () => {
    await rememberIds(2, daysAgo(3));
    await insertRows(database, 'wh_outbox', [{ processed_at: daysAgo(3) }]);
    await oneCycle({ dedupRetentionDays: 2, completedRetentionDays: 4 });
    expect(await countOf('wh_message_deduplication')).toBe(0);
    expect(await countOf('wh_outbox')).toBe(1);
  });

  test('purges a thousand rows in a transaction, at the most', async () => {
    await database.query(`
      create table purges (deleted integer);
      create function note_purge() returns trigger language plpgsql as $$
      begin
        insert into public.purges select count(*) from gone;
        return null;
      end $$;
      create trigger note_purge after delete on whizbang.wh_message_deduplication
        referencing old table as gone for each statement execute function note_purge();`);
    try {
      await rememberIds(2_500, daysAgo(31));
      await oneCycle();
      const rows = await database.query<{ deleted: number }>('select deleted from purges where deleted > 0');
      expect(rows.map((row) => row.deleted)).toEqual([1_000, 1_000, 500]);
    } finally {
      await database.query(
        'drop trigger note_purge on whizbang.wh_message_deduplication; drop function note_purge; drop table purges',
      );
    }
  });

  test.each(['outbox', 'inbox'])('finds kept rows of the %s by their index', async (side) => {
    await database.query(
      side === 'outbox'
        ? `insert into whizbang.wh_outbox (message_id, destination, message_type, event_data)
           select gen_random_uuid(), 'orders', 'order-placed', '{}' from generate_series(1, 5000)`
        : `insert into whizbang.wh_inbox (message_id, handler_name, message_type, event_data)
           select gen_random_uuid(), 'order-placed', 'order-placed', '{}' from generate_series(1, 5000)`,
    );
    await database.query(`analyze whizbang.wh_${side}`);
    const plan = await database.query<{ 'QUERY PLAN': string }>(
      `explain select message_id from whizbang.wh_${side} where processed_at < now() - interval '7 days' order by processed_at limit 1000`,
    );
    expect(plan.map((line) => line['QUERY PLAN']).join('\n')).toContain(`idx_${side}_processed`);
  });

  test('goes on with the next task when one fails', async () => {
    await rememberIds(2, daysAgo(31));
    await database.query('alter function whizbang.find_stuck_outbox_rows rename to find_stuck_outbox_rows_away');
    try {
      const logger = await oneCycle();
      expect(logger.warnings('A maintenance task failed').map((line) => line.fields['task'])).toEqual(['sentinel']);
      expect(await countOf('wh_message_deduplication')).toBe(0);
    } finally {
      await database.query('alter function whizbang.find_stuck_outbox_rows_away rename to find_stuck_outbox_rows');
    }
  });

  test('does not run when it is switched off', async () => {
    const logger = new RecordingLogger();
    const whizbang = await janitor(logger, { enabled: false });
    expect(await countOf('wh_duties')).toBe(0);
    await whizbang.stop();
    expect(logger.count(cycleEnded)).toBe(0);
  });
});

describe('the elected instance', () => {
  test('is one, and followed at once when it is stopped', async () => {
    const first = await janitor();
    await waitFor(() => isElected(first), { message: 'the first to be elected' });
    const logger = new RecordingLogger();
    const second = await janitor(logger);
    await waitFor(async () => (await second.status()).wakeupsHealthy, { message: 'the second to listen' });
    expect(await isElected(second)).toBe(false);
    expect(logger.count(cycleEnded)).toBe(0);
    await first.stop();
    // Without the notification it would ask in fifteen seconds.
    await waitFor(() => isElected(second), { message: 'the second to be elected', timeoutMs: 5_000 });
    await waitFor(() => logger.count(cycleEnded) >= 1, { message: 'a cycle of the second' });
  });

  test('is followed when its lease has ended', async () => {
    await database.query(
      `insert into whizbang.wh_duties values ('maintenance', gen_random_uuid(), now() + interval '1 hour')`,
    );
    const logger = new RecordingLogger();
    const whizbang = await janitor(logger);
    await waitFor(async () => (await whizbang.status()).wakeupsHealthy, { message: 'it to be up' });
    expect(await isElected(whizbang)).toBe(false);
    await database.query(`update whizbang.wh_duties set lease_expiry = now() - interval '1 second'`);
    await waitFor(() => isElected(whizbang), { message: 'the next question after the duty', timeoutMs: 25_000 });
    await waitFor(() => logger.count(cycleEnded) >= 1, { message: 'a cycle' });
  });

  test('with recovery switched off leaves it to another, and status() tells when there is none', async () => {
    const first = await service(database.url, { publisher: { enabled: false }, deadLetters: { enabled: false } });
    await first.start();
    await waitFor(() => isElected(first), { message: 'the first to be elected' });
    expect((await first.status()).duties).toEqual({ maintenance: true, recovery: false });
    // Its reason has no cooldown: whoever recovers takes it at once.
    await insertRows(database, 'wh_dead_letters', [
      { failure_reason: MessageFailureReason.LeaseExpired, dead_lettered_at: daysAgo(1) },
    ]);
    const second = await service(database.url, { publisher: { enabled: false } });
    await second.start();
    const recovered = `select from whizbang.wh_dead_letters where recovered_at is not null`;
    await waitFor(async () => (await database.query(recovered)).length === 1, { message: 'its recovery' });
    expect((await first.status()).duties).toEqual({ maintenance: true, recovery: true });
    await second.stop();
    expect((await first.status()).duties).toEqual({ maintenance: true, recovery: false });
  });

  test('holds its duty for less than a minute beyond its death', async () => {
    const whizbang = await janitor();
    await waitFor(() => isElected(whizbang), { message: 'it to be elected' });
    const [duty] = await database.query<{ seconds: number }>(
      `select extract(epoch from lease_expiry - clock_timestamp())::float8 as seconds from whizbang.wh_duties`,
    );
    expect(duty?.seconds).toBeGreaterThan(25);
    // And 15 seconds until the others ask.
    expect(duty?.seconds).toBeLessThanOrEqual(40);
  });
});

describe('the leases of an instance', () => {
  const died = async (beatSecondsAgo: number) => {
    const id = randomUUID();
    await database.query(
      `insert into whizbang.wh_service_instances (instance_id, service_name, host_name, process_id, last_heartbeat_at)
       values ($1, 'desk', 'elsewhere', 1, now() - $2 * interval '1 second')`,
      [id, beatSecondsAgo],
    );
    const lease = { instance_id: id, lease_expiry: minutesAgo(-60), attempts: 1 };
    for (const table of ['wh_outbox', 'wh_inbox'] as const) {
      await insertRows(database, table, [lease, { ...lease, attempts: 2, scheduled_for: minutesAgo(1) }]);
    }
    return id;
  };
  const leasesOf = async (id: string) =>
    (
      await database.query<{ count: number }>(
        `select count(*)::integer as count from (
           select instance_id, lease_expiry from whizbang.wh_outbox union all
           select instance_id, lease_expiry from whizbang.wh_inbox) r
         where instance_id = $1 and lease_expiry > now()`,
        [id],
      )
    )[0]?.count;

  test('are ended when its heartbeat has ended, by whoever has been beating meanwhile', async () => {
    const dead = await died(3_600);
    const alive = await died(0);
    const logger = new RecordingLogger();
    await janitor(logger);
    // Who has just come judges nobody: it may be the first that is back after an outage.
    expect(await leasesOf(dead)).toBe(4);
    const keepBeating = () =>
      database.query('update whizbang.wh_service_instances set last_heartbeat_at = now() where instance_id = $1', [
        alive,
      ]);
    await waitFor(
      async () => {
        await keepBeating();
        return (await leasesOf(dead)) === 0;
      },
      { message: 'the leases of the dead to be ended', timeoutMs: 55_000, intervalMs: 500 },
    );
    expect(await leasesOf(alive)).toBe(4);
    await waitFor(() => logger.warnings('Instances stopped beating').length > 0, { message: 'the warning' });
    expect(logger.warnings('Instances stopped beating')[0]?.fields).toEqual({ instances: [dead], leases: 4 });
    // The rows are free, and their attempts are what they were.
    const rows = await database.query<{ attempts: number }>(
      `select attempts from whizbang.claim_orphaned_outbox(gen_random_uuid(), 10, 1000000, 60) order by attempts`,
    );
    expect(rows.map((row) => row.attempts)).toEqual([2]);
  });

  test('are not looked for among rows that wait for next week', async () => {
    const dead = await died(3_600);
    await database.query(
      `insert into whizbang.wh_outbox (message_id, destination, message_type, event_data, scheduled_for)
       select gen_random_uuid(), 'orders', 'order-placed', '{}', now() + interval '7 days' from generate_series(1, 20000)`,
    );
    const client = await database.pool.connect();
    try {
      await client.query('begin');
      const { rows: before } = await client.query<{ read: number }>(entriesRead);
      const { rows } = await client.query<{ leases: number }>('select whizbang.release_dead_instances($1) as leases', [
        [dead],
      ]);
      expect(rows).toEqual([{ leases: 4 }]);
      const { rows: after } = await client.query<{ read: number }>(entriesRead);
      expect((after[0]?.read ?? Number.NaN) - (before[0]?.read ?? 0)).toBeLessThan(100);
      await client.query('rollback');
    } finally {
      client.release();
    }
  });
});

const entriesRead = `select sum(pg_stat_get_xact_tuples_returned(indexrelid))::integer
  + pg_stat_get_xact_tuples_returned('whizbang.wh_outbox'::regclass)::integer as read
  from pg_index where indrelid = 'whizbang.wh_outbox'::regclass`;
