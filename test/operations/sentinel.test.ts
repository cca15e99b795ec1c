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

const stream = '11111111-1111-4111-8111-111111111111';
const cycleEnded = 'A maintenance cycle ended';

let database: OperatorsDatabase;
beforeAll(async () => {
  database = await operatorsDatabase();
});
afterAll(() => database.close());
beforeEach(() => database.empty());

type Maintenance = NonNullable<Parameters<typeof service>[1]>['maintenance'];

/** A service that does maintenance and nothing else, so that stuck rows stay. */
async function janitor(logger: RecordingLogger, maintenance: Maintenance = {}) {
  const whizbang = await service(database.url, {
    logger,
    publisher: { enabled: false },
    deadLetters: { enabled: false },
    maintenance,
  });
  await whizbang.start();
  return whizbang;
}

async function oneCycle(maintenance: Maintenance = {}) {
  const logger = new RecordingLogger();
  const whizbang = await janitor(logger, maintenance);
  await waitFor(() => logger.count(cycleEnded) >= 1, { message: 'a maintenance cycle' });
  await whizbang.stop();
  return logger.warnings('row sentinel');
}

describe.each(['wh_outbox', 'wh_inbox'] as const)('the sentinel over %s', (table) => {
  const side = table === 'wh_outbox' ? 'outbox' : 'inbox';
  const since = table === 'wh_outbox' ? 'created_at' : 'received_at';

  test('warns of rows past the cap and of parked ones, with the five fields, worst first', async () => {
    const at = new Date('2026-03-12T09:15:00.000Z');
    const ids = await insertRows(database, table, [
      { message_type: 'worst', stream_id: stream, attempts: 992, [since]: at },
      { message_type: 'past', attempts: 11, [since]: at },
      { message_type: 'parked', attempts: 4, scheduled_for: 'infinity', [since]: at },
      { message_type: 'parked-behind', stream_id: stream, blocked: true, scheduled_for: 'infinity', [since]: at },
      { message_type: 'at-the-cap', attempts: 10 },
      { message_type: 'waiting', attempts: 9, scheduled_for: minutesAgo(-60) },
      { message_type: 'healthy' },
      { message_type: 'done', attempts: 12, processed_at: minutesAgo(1) },
    ]);
    const before = await database.query(`select * from whizbang.${table} order by message_id`);
    const warnings = await oneCycle();
    expect(warnings.map((line) => line.fields)).toEqual([
      { message_id: ids[0], type: 'worst', stream, attempts: 992, since: at.toISOString() },
      { message_id: ids[1], type: 'past', stream: null, attempts: 11, since: at.toISOString() },
      { message_id: ids[2], type: 'parked', stream: null, attempts: 4, since: at.toISOString() },
      { message_id: ids[3], type: 'parked-behind', stream, attempts: 0, since: at.toISOString() },
    ]);
    const cap = side === 'outbox' ? 'maxOutboxAttempts' : 'maxInboxAttempts';
    expect(warnings[0]?.message).toContain(`Stuck ${side} row sentinel: the row was claimed past ${cap}`);
    expect(warnings[2]?.message).toContain(`Stuck ${side} row sentinel: the row is parked`);
    expect(await database.query(`select * from whizbang.${table} order by message_id`)).toEqual(before);
  });

  test('warns of rows from the ends of time like of any other', async () => {
    const times = ['infinity', '-infinity', '294276-12-31', '0044-03-15 BC'];
    const ids = await insertRows(
      database,
      table,
      times.map((time) => ({ message_type: 'odd', attempts: 11, [since]: time })),
    );
    const warned = (await oneCycle()).map(({ fields }) => fields['message_id']);
    expect(new Set(warned)).toEqual(new Set(ids));
    expect(warned).toHaveLength(ids.length);
  });

  test('warns fifty times a cycle at the most, of the worst', async () => {
    await insertRows(
      database,
      table,
      Array.from({ length: 60 }, (_, index) => ({ attempts: 11 + index })),
    );
    const warnings = await oneCycle();
    expect(warnings).toHaveLength(50);
    expect(warnings.map((line) => line.fields['attempts'])).toEqual(
      Array.from({ length: 50 }, (_, index) => 70 - index),
    );
  });

  test('takes another limit', async () => {
    await insertRows(database, table, [{ attempts: 20 }, { attempts: 30 }, { attempts: 40 }]);
    expect((await oneCycle({ stuckRowSentinelLimit: 2 })).map((line) => line.fields['attempts'])).toEqual([40, 30]);
  });

  test.each([
    [20, [30]],
    [5, [30, 11, 6]],
    // Below the index's five it is slower, and as true.
    [3, [30, 11, 6, 4]],
    [0, [30, 11, 6, 4, 1]],
  ])('takes another threshold: more than %i attempts', async (stuckRowSentinelMaxAttempts, attempts) => {
    await insertRows(
      database,
      table,
      [30, 11, 6, 4, 1, 0].map((tries) => ({ attempts: tries })),
    );
    const warnings = await oneCycle({ stuckRowSentinelMaxAttempts });
    expect(warnings.map((line) => line.fields['attempts'])).toEqual(attempts);
  });

  test('can be switched off without the rest of maintenance', async () => {
    await insertRows(database, table, [{ attempts: 20 }]);
    expect(await oneCycle({ stuckRowSentinelEnabled: false })).toEqual([]);
  });
});

test('three instances warn once of each stuck row in each cycle', async () => {
  const ids = await insertRows(database, 'wh_outbox', [{ attempts: 11 }, { attempts: 12 }]);
  ids.push(...(await insertRows(database, 'wh_inbox', [{ attempts: 13 }])));
  const logger = new RecordingLogger();
  const instances = [];
  for (let count = 0; count < 3; count += 1) instances.push(await janitor(logger, { intervalMinutes: 0.005 }));
  await waitFor(() => logger.count(cycleEnded) >= 5, { message: 'five cycles' });
  const elected = await Promise.all(instances.map(async (one) => (await one.status()).elected));
  expect(elected.filter(Boolean)).toHaveLength(1);
  // Those that are not elected first: else the duty would change hands on the way out, which is another cycle.
  for (const [index, one] of instances.entries()) if (elected[index] !== true) await one.stop();
  for (const one of instances) await one.stop();
  const cycles = logger.count(cycleEnded);
  for (const id of ids) {
    expect(logger.warnings('row sentinel').filter((line) => line.fields['message_id'] === id)).toHaveLength(cycles);
  }
});

describe('the sentinel is cheap', () => {
  const healthy = 100_000;

  test.each(['outbox', 'inbox'] as const)(
    'its index on the %s is used, and empty beside healthy rows',
    async (side) => {
      await fill(side, healthy);
      await insertRows(database, `wh_${side}`, [{ attempts: 11 }]);
      // As autovacuum does sooner or later; what a planner without statistics chooses says nothing.
      await database.query(`analyze whizbang.wh_${side}`);
      const plan = await database.query<{ 'QUERY PLAN': string }>(
        `explain select message_id from whizbang.wh_${side} o
       where o.processed_at is null and o.past_sentinel and o.attempts > 10 order by o.attempts desc, o.sequence limit 50`,
      );
      expect(plan.map((line) => line['QUERY PLAN']).join('\n')).toContain(`idx_${side}_stuck_sentinel`);
      const scans = () =>
        waitFor(
          async () => {
            const [row] = await database.query<{ scans: number }>(
              `select pg_stat_force_next_flush(), pg_stat_clear_snapshot(), idx_scan::integer + 1 as scans from pg_stat_user_indexes
             where indexrelname = 'idx_${side}_stuck_sentinel'`,
            );
            return row?.scans;
          },
          { message: 'the statistics of the index' },
        );
      const before = await scans();
      // On one connection, whose statistics are flushed when it ends its next transaction.
      const client = await database.pool.connect();
      try {
        const { rows } = await client.query(`select * from whizbang.find_stuck_${side}_rows(10, 50)`);
        expect(rows).toHaveLength(1);
        await client.query('select pg_stat_force_next_flush()');
      } finally {
        client.release();
      }
      await waitFor(async () => (await scans()) > before, { message: 'the function to have used the index' });
      const [size] = await database.query<{ bytes: number }>(
        `select pg_relation_size('whizbang.idx_${side}_stuck_sentinel')::integer as bytes`,
      );
      // A btree is a metapage and, with anything in it, a root.
      expect(size?.bytes).toBeLessThanOrEqual(2 * 8192);
    },
  );

  test.each(['outbox', 'inbox'] as const)('and claims of the %s stay HOT beside it', async (side) => {
    const shares: number[] = [];
    for (const index of ['kept', 'dropped']) {
      await database.empty();
      await fill(side, 1_000);
      const before = await updates(side);
      const client = await database.pool.connect();
      try {
        await client.query('begin');
        if (index === 'dropped') await client.query(`drop index whizbang.idx_${side}_stuck_sentinel`);
        for (let round = 0; round < 5; round += 1) {
          await client.query(`select count(*) from whizbang.claim_orphaned_${side}($1, 200, 10000000, 60)`, [stream]);
        }
        await client.query('rollback');
        await client.query('select pg_stat_force_next_flush()');
      } finally {
        client.release();
      }
      // What is rolled back counts too.
      const after = await waitFor(
        async () => {
          const now = await updates(side);
          return now.all >= before.all + 1_000 ? now : undefined;
        },
        { message: 'the statistics of a thousand claims' },
      );
      shares.push((after.hot - before.hot) / (after.all - before.all));
    }
    const [beside = 0, without = 0] = shares;
    report(
      `${side}: ${(beside * 100).toFixed(1)} % of claims were HOT beside the index, ${(without * 100).toFixed(1)} % without`,
    );
    // Not all of them: a claimed row is 24 bytes longer, and the last on each page find no room.
    expect(beside).toBeGreaterThan(0.9);
    expect(beside).toBeGreaterThanOrEqual(without - 0.01);
  });
});

async function updates(side: 'outbox' | 'inbox') {
  const [row] = await database.query<{ all: number; hot: number }>(
    `select n_tup_upd::integer as all, n_tup_hot_upd::integer as hot from pg_stat_user_tables where relname = 'wh_${side}'`,
  );
  return row ?? { all: 0, hot: 0 };
}

describe('with a hundred thousand rows of each kind', () => {
  beforeEach(async () => {
    for (const side of ['outbox', 'inbox'] as const) {
      await fill(side, 100_000, `scheduled_for => now() + interval '7 days'`);
      await fill(side, 100_000, `blocked => true`);
    }
    await database.query(
      `insert into whizbang.wh_dead_letters
         (dead_letter_id, source_table, source_id, message_type, envelope, failure_reason, attempts_when_dlq, generation)
       select gen_random_uuid(), 'wh_outbox', gen_random_uuid(), 'order-placed', '{}', (array[2, 3, 5, 5, 5, 99])[1 + n % 6], 10, 'build-1'
       from generate_series(1, 100000) n`,
    );
    await database.query('vacuum analyze');
  });

  test('the sentinel and status() answer within 50 ms', async () => {
    const whizbang = await service(database.url);
    expect(await whizbang.status()).toMatchObject({
      outbox: { pending: 0, scheduled: 5_000, blockedStreams: 1 },
      inbox: { pending: 0, scheduled: 5_000, blockedStreams: 1 },
      deadByReason: {
        TransportException: 5_000,
        SerializationError: 5_000,
        MaxAttemptsExceeded: 5_000,
        Unknown: 5_000,
      },
    });
    const status = await fastest(() => whizbang.status());
    const outbox = await fastest(() => database.query('select * from whizbang.find_stuck_outbox_rows(10, 50)'));
    const inbox = await fastest(() => database.query('select * from whizbang.find_stuck_inbox_rows(10, 50)'));
    report(
      `fastest of ten: status ${status.toFixed(1)} ms, sentinel ${outbox.toFixed(1)} ms (outbox), ${inbox.toFixed(1)} ms (inbox)`,
    );
    expect(Math.max(status, outbox, inbox)).toBeLessThan(50);
  });
});

/** What the work itself costs: the fastest of ten, because other processes share the machine. */
async function fastest(work: () => Promise<unknown>): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 10; round += 1) {
    const began = performance.now();
    await work();
    best = Math.min(best, performance.now() - began);
  }
  return best;
}

async function fill(side: 'outbox' | 'inbox', rows: number, special = '') {
  const [column, value] = special.split(' => ');
  const extra = column === undefined || value === undefined ? ['', ''] : [`, ${column}`, `, ${value}`];
  const body = JSON.stringify({ text: 'x'.repeat(500) });
  const streamId = special.startsWith('blocked') ? `'${stream}'::uuid` : 'null::uuid';
  await (side === 'outbox'
    ? database.query(
        `insert into whizbang.wh_outbox (message_id, destination, message_type, event_data, stream_id${extra[0]})
         select gen_random_uuid(), 'orders', 'order-placed', $2::json, ${streamId}${extra[1]} from generate_series(1, $1::integer)`,
        [rows, body],
      )
    : database.query(
        `insert into whizbang.wh_inbox (message_id, handler_name, message_type, destination, event_data, stream_id${extra[0]})
         select gen_random_uuid(), 'order-placed', 'order-placed', 'orders', $2::json, ${streamId}${extra[1]} from generate_series(1, $1::integer)`,
        [rows, body],
      ));
}

function report(line: string): void {
  process.stdout.write(`${line}\n`);
}
