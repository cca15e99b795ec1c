import { randomUUID } from 'node:crypto';

import { type DeadLetterEntry, DefaultDeadLetterRecoveryPolicy, MessageFailureReason } from '@whizbang/core';
import { metrics } from '@opentelemetry/api';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { schemaName } from '../../packages/core/src/database/schema-name.js';
import {
  DeadLetterRecoveryWorker,
  type RecoveryWorkerSettings,
} from '../../packages/core/src/dead-letters/dead-letter-recovery-worker.js';
import { DeadLetterStore } from '../../packages/core/src/dead-letters/dead-letter-store.js';
import { DeadLetterMetrics } from '../../packages/core/src/telemetry/dead-letter-metrics.js';
import { type DeadRow, WorkRows, failureDatabase, tables } from './work-rows.js';

const holder = '0190aaaa-0000-7000-8000-000000000001';
const minutes = 60_000;
const hours = 60 * minutes;

let database: Awaited<ReturnType<typeof failureDatabase>>;
beforeAll(async () => {
  database = await failureDatabase();
});
afterAll(() => database.close());

const logged: string[] = [];
const log = (_: object, message: string) => void logged.push(message);

/** A worker whose scans are called by the test, on the test's clock. */
function workerOf(settings: Partial<RecoveryWorkerSettings> = {}) {
  const clock = { now: new Date() };
  const counters = settings.metrics ?? new DeadLetterMetrics();
  const worker = new DeadLetterRecoveryWorker({
    store: new DeadLetterStore(database.pool, schemaName('whizbang')),
    policy: new DefaultDeadLetterRecoveryPolicy(),
    metrics: counters,
    logger: { debug: log, info: log, warn: log, error: log },
    generation: 'build-1',
    scanIntervalMinutes: 10,
    scanBatchSize: 200,
    enableGenerationReplay: true,
    elected: () => true,
    // Only start() sleeps.
    sleeper: undefined as unknown as RecoveryWorkerSettings['sleeper'],
    now: () => clock.now,
    ...settings,
  });
  return { worker, clock, counters: counters.counters };
}

let rows: WorkRows;
beforeEach(async () => {
  rows = new WorkRows('outbox', database.pool);
  await rows.empty();
  await database.pool.query('delete from whizbang.wh_inbox');
  logged.length = 0;
});

const only = async (): Promise<DeadRow & { readonly dead_lettered_at: Date }> => {
  const [letter, ...others] = await rows.dead();
  if (letter === undefined || others.length > 0) throw new Error(`There are ${others.length} dead letters beside one`);
  return letter as DeadRow & { readonly dead_lettered_at: Date };
};

/** All rows that are there are claimed and die. */
const die = async (reason: number, more: Readonly<Record<string, unknown>> = {}) => {
  await rows.move(holder, await rows.claim(holder), { reason, ...more });
};

// Reason, recoveries, cooldown and end, as in the seed; one of the reasons without a line stands for all of them.
const matrix: [keyof typeof MessageFailureReason, number, number, number][] = [
  ['Throttled', 3, 30 * minutes, 4],
  ['TransportException', 3, 1 * hours, 4],
  ['LeaseExpired', 5, 0, 4],
  ['MaxAttemptsExceeded', 1, 6 * hours, 2],
  ['EventStorageFailure', 0, 0, 2],
  ['ValidationError', 0, 0, 2],
  ['SerializationError', 0, 0, 2],
  ['TransportNotReady', 3, 30 * minutes, 4],
  ['Unknown', 1, 1 * hours, 2],
  ['MessageBodyTooLarge', 1, 1 * hours, 2],
];

test.each(matrix)(
  '%s: %i recoveries in the life of a message that keeps dying, %i ms before each, then status %i',
  async (reason, budget, cooldown, end) => {
    const { worker, clock, counters } = workerOf();
    await rows.store('a1');
    await die(MessageFailureReason[reason]);
    for (let spent = 0; spent < budget; spent += 1) {
      const { dead_lettered_at: diedAt } = await only();
      // A second before its time, if it has one: twice, because the time that the first look gives it must be the same.
      clock.now = new Date(diedAt.getTime() + cooldown - 1_000);
      await worker.scan();
      await worker.scan();
      expect(await rows.rows()).toEqual([]);
      expect(await only()).toMatchObject({ recovery_status: 0, recovery_attempts: spent });
      clock.now = new Date(diedAt.getTime() + cooldown + 1);
      await worker.scan();
      expect(await rows.row('a1')).toMatchObject({ attempts: 0 });
      expect(await only()).toMatchObject({ recovery_status: 3, recovery_attempts: spent + 1 });
      await die(MessageFailureReason[reason]);
    }
    await worker.scan();
    clock.now = new Date(clock.now.getTime() + 1_000 * hours);
    await worker.scan();
    expect(await rows.rows()).toEqual([]);
    expect(await only()).toMatchObject({ recovery_status: end, recovery_attempts: budget, next_recovery_at: null });
    expect(counters).toMatchObject({
      totalRecovered: budget,
      totalHeld: end === 2 ? 1 : 0,
      totalPermanentlyFailed: end === 4 ? 1 : 0,
    });
  },
);

describe.each(tables)('TailAware, %s', (name) => {
  const line = { name: 'Now', maxRecoveryAttempts: 1, cooldownMs: 0, holdForReviewAfterExhaustion: true };
  const after = { policyByReason: new Map([[MessageFailureReason.MaxAttemptsExceeded, line]]) };

  test('dead letters of a stream come back together, in their order, whichever of them is due', async () => {
    rows = new WorkRows(name, database.pool);
    await rows.store('a1', 'b1', 'a2', 'a3');
    const claimed = await rows.claim(holder);
    // They died in another order than they have in their stream.
    for (const label of ['a3', 'a1', 'b1', 'a2']) {
      await rows.move(
        holder,
        claimed.filter((row) => row.label === label),
      );
    }
    await database.pool.query(
      `update whizbang.wh_dead_letters set next_recovery_at = case message_type when 'a2' then now() - interval '1 minute' else now() + interval '1 day' end`,
    );
    await workerOf().worker.scan();
    expect((await rows.claim(holder)).map((row) => row.label)).toEqual(['a1', 'a2', 'a3']);
    expect((await rows.dead()).map((row) => row.recovery_status)).toEqual([3, 0, 3, 3]);
  });

  test('one that has spent its budget stays, and the others of its stream come', async () => {
    rows = new WorkRows(name, database.pool);
    await rows.store('a1', 'a2', 'a3');
    await rows.move(holder, await rows.claim(holder));
    await database.pool.query(`update whizbang.wh_dead_letters set recovery_attempts = 1 where message_type = 'a2'`);
    const { worker, clock, counters } = workerOf({ policy: new DefaultDeadLetterRecoveryPolicy(after) });
    clock.now = new Date(Date.now() + minutes);
    await worker.scan();
    expect((await rows.claim(holder)).map((row) => row.label)).toEqual(['a1', 'a3']);
    expect((await rows.dead()).map((row) => row.recovery_status)).toEqual([3, 2, 3]);
    expect(counters).toMatchObject({ totalRecovered: 2, totalHeld: 1 });
  });

  test('nothing passes one that is held and holds its stream, nor is it asked for again and again', async () => {
    rows = new WorkRows(name, database.pool);
    await rows.store('a1', 'a2', 'a3');
    await rows.move(holder, await rows.claim(holder), { parks: true });
    await database.pool.query(`update whizbang.wh_dead_letters set recovery_attempts = 1 where message_type = 'a1'`);
    const { worker, clock } = workerOf({ policy: new DefaultDeadLetterRecoveryPolicy(after) });
    clock.now = new Date(Date.now() + minutes);
    expect(await worker.scan()).toBe(3);
    expect(await worker.scan()).toBe(0);
    expect(await rows.rows()).toEqual([]);
    expect((await rows.dead()).map((row) => row.recovery_status)).toEqual([2, 0, 0]);
    // A retry of the head brings the rest along.
    const [head] = await rows.dead();
    await database.pool.query(`select whizbang.retry_dead_letter($1, 'ann')`, [head?.dead_letter_id]);
    await worker.scan();
    expect((await rows.claim(holder)).map((row) => row.label)).toEqual(['a1', 'a2', 'a3']);
  });
});

test('a policy of per-message recovery brings back one at a time', async () => {
  class PerMessage extends DefaultDeadLetterRecoveryPolicy {
    override getStreamMode() {
      return 'PerMessage' as const;
    }
  }
  await rows.store('a1', 'a2');
  await die(8);
  await database.pool.query(
    `update whizbang.wh_dead_letters set next_recovery_at = case message_type when 'a2' then now() - interval '1 minute' else now() + interval '1 day' end`,
  );
  await workerOf({ policy: new PerMessage() }).worker.scan();
  expect((await rows.rows()).map((row) => row.label)).toEqual(['a2']);
});

test('what the policy leaves alone, or fails at, keeps nobody else waiting', async () => {
  class Picky extends DefaultDeadLetterRecoveryPolicy {
    override shouldRecover(entry: DeadLetterEntry): boolean {
      return !entry.messageType.startsWith('-leave') && super.shouldRecover(entry);
    }
    override getPolicy(entry: DeadLetterEntry) {
      if (entry.messageType.startsWith('-broken')) throw new Error('no policy for you');
      if (entry.messageType.startsWith('-odd')) return { ...super.getPolicy(entry), cooldownMs: Number.NaN };
      return super.getPolicy(entry);
    }
  }
  await rows.store('-leave1', '-leave2', '-leave3', '-broken1', '-odd1', '-good1');
  await die(6);
  // Two in one look: the older ones that nothing happens to must make room.
  const { worker, clock } = workerOf({ policy: new Picky(), scanBatchSize: 2 });
  clock.now = new Date(Date.now() + minutes);
  for (let scan = 0; scan < 3; scan += 1) await worker.scan();
  expect((await rows.rows()).map((row) => row.label)).toContain('-good1');
  expect(await worker.scan()).toBe(0);
  const left = (await rows.dead()).filter((row) => row.recovery_status === 0).map((row) => row.message_type);
  expect(left).toEqual(expect.arrayContaining(['-leave1', '-leave2', '-leave3', '-broken1']));
  // Asked again at the next regular look.
  clock.now = new Date(clock.now.getTime() + 11 * minutes);
  expect(await worker.scan()).toBe(2);
});

test('what has become due since the last look is due now; what is held by an operator never is', async () => {
  const store = new DeadLetterStore(database.pool, schemaName('whizbang'));
  const schedule = (ms: number, disposition = 0) =>
    database.pool.query(
      `update whizbang.wh_dead_letters
       set next_recovery_at = clock_timestamp() + $1 * interval '1 millisecond', operator_disposition = $2`,
      [ms, disposition],
    );
  await rows.store('a1');
  await die(MessageFailureReason.Throttled);
  await schedule(60_000);
  expect(await store.nextDueMs()).toBeGreaterThan(50_000);
  await schedule(-1);
  expect(await store.nextDueMs()).toBeLessThan(0);
  for (const held of [2, 3]) {
    await schedule(-1, held);
    expect(await store.nextDueMs()).toBeNull();
  }
});

test('a dead letter that cannot be brought back waits for another time, and its neighbours return', async () => {
  await rows.store('-bad', '-good');
  await die(6);
  await database.pool.query(`alter table whizbang.wh_outbox add constraint refuses_bad check (message_type <> '-bad')`);
  try {
    const { worker, clock } = workerOf();
    clock.now = new Date(Date.now() + minutes);
    await worker.scan();
    expect((await rows.rows()).map((row) => row.label)).toEqual(['-good']);
    expect(await worker.scan()).toBe(0);
    expect(logged).toContain('A dead letter could not be brought back');
    const bad = (await rows.dead()).find((row) => row.message_type === '-bad');
    expect(bad).toMatchObject({ recovery_status: 0, recovery_attempts: 0 });
  } finally {
    await database.pool.query('alter table whizbang.wh_outbox drop constraint refuses_bad');
  }
});

test('bytes that could not be read are held, whatever their reason', async () => {
  await database.pool.query(
    `select whizbang.store_undecodable_deliveries(array[$1::uuid], '{unknown}', '{orders}', array['\\xff'::bytea], '{"{}"}', '{unreadable}', 8, 'build-1', $1)`,
    [randomUUID()],
  );
  const { worker, clock, counters } = workerOf();
  clock.now = new Date(Date.now() + hours);
  await worker.scan();
  expect(counters).toMatchObject({ totalHeld: 1, totalRecovered: 0 });
});

describe('generation replay', () => {
  const reset = async (generation: string) => {
    const { rows: found } = await database.pool.query<{ count: number }>(
      'select whizbang.reset_dead_letters_for_generation($1) as count',
      [generation],
    );
    return found[0]?.count;
  };

  test('takes what waits and what is held for review, once per generation, and leaves what the seed leaves', async () => {
    await rows.store('-pending', '-review', '-permanent', '-indefinitely', '-given-up', '-recovered');
    await die(5);
    const set = (label: string, text: string) =>
      database.pool.query(`update whizbang.wh_dead_letters set ${text} where message_type = $1`, [label]);
    await set('-review', 'recovery_status = 2');
    await set('-permanent', 'recovery_status = 4');
    await set('-indefinitely', 'recovery_status = 2, operator_disposition = 2');
    await set('-given-up', 'recovery_status = 4, operator_disposition = 3');
    await set('-recovered', 'recovery_status = 3, recovered_at = now()');
    // The build under which they died has had its tries.
    expect(await reset('build-1')).toBe(0);
    const answers = await Promise.all([reset('build-2'), reset('build-2'), reset('build-2')]);
    expect(answers.toSorted((a, b) => (a ?? 0) - (b ?? 0))).toEqual([0, 0, 2]);
    expect(await reset('build-2')).toBe(0);
    const replayed = (await rows.dead()).filter((row) => (row['retried_on_generations'] as string[]).length > 0);
    expect(replayed).toMatchObject([
      { message_type: '-pending', recovery_status: 0, granted_attempts: 1, retried_on_generations: ['build-2'] },
      { message_type: '-review', recovery_status: 0, granted_attempts: 1, retried_on_generations: ['build-2'] },
    ]);
    expect(await reset('build-3')).toBe(2);
  });

  test.each([
    ['ValidationError', 0],
    ['MaxAttemptsExceeded', 1],
  ] as const)('gives %s one try beyond its %i, at once, and no more', async (reason, budget) => {
    const { worker, clock } = workerOf();
    await rows.store('a1');
    await die(MessageFailureReason[reason]);
    // Its own budget is spent first.
    for (let spent = 0; spent < budget; spent += 1) {
      clock.now = new Date(Date.now() + 7 * hours);
      await worker.scan();
      await die(MessageFailureReason[reason]);
    }
    await worker.scan();
    expect(await only()).toMatchObject({ recovery_status: 2, recovery_attempts: budget });

    expect(await reset('build-2')).toBe(1);
    clock.now = new Date(Date.now() + 1_000);
    await worker.scan();
    expect(await rows.rows()).toHaveLength(1);
    await die(MessageFailureReason[reason]);
    for (const wait of [0, 7 * hours, 100 * hours]) {
      clock.now = new Date(Date.now() + wait);
      await worker.scan();
      expect(await rows.rows()).toEqual([]);
    }
    expect(await only()).toMatchObject({ recovery_status: 2, recovery_attempts: budget + 1 });
  });
});

test('a try that is granted and not used yet is one, however often and by whom it is granted', async () => {
  await rows.store('a1');
  await die(4);
  const { dead_letter_id: id } = await only();
  await database.pool.query(`select whizbang.retry_dead_letter($1, 'ann')`, [id]);
  await database.pool.query(`select whizbang.retry_dead_letter($1, 'bob')`, [id]);
  await database.pool.query(`select whizbang.reset_dead_letters_for_generation('build-2')`);
  expect(await only()).toMatchObject({
    granted_attempts: 1,
    operator_actor: 'bob',
    retried_on_generations: ['build-2'],
  });
});

test('an operator brings back what has spent more than its present policy allows, once', async () => {
  const { worker, clock } = workerOf();
  await rows.store('a1');
  await die(8);
  await database.pool.query('update whizbang.wh_dead_letters set recovery_attempts = 3, failure_reason = 5');
  await worker.scan();
  const { dead_letter_id: id } = await only();
  expect(await only()).toMatchObject({ recovery_status: 2 });
  await database.pool.query(`select whizbang.retry_dead_letter($1, 'ann')`, [id]);
  // A worker that decided before the operator did does not take it back.
  const { rows: marks } = await database.pool.query(
    `select whizbang.mark_dead_letter_holding($1) as held, whizbang.mark_dead_letter_permanently_failed($1) as failed`,
    [id],
  );
  expect(marks).toEqual([{ held: false, failed: false }]);
  clock.now = new Date(Date.now() + 1_000);
  await worker.scan();
  expect(await rows.rows()).toHaveLength(1);
  await die(5);
  await worker.scan();
  expect(await only()).toMatchObject({ recovery_status: 2, recovery_attempts: 4 });
});

test('the five metrics have the dimensions of the seed', async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
  try {
    const counters = new DeadLetterMetrics();
    const { worker, clock } = workerOf({ metrics: counters });
    await rows.store('-1', '-2');
    await die(4);
    await rows.store('-3');
    await die(6);
    await rows.store('-4');
    await die(8);
    await database.pool.query(`update whizbang.wh_dead_letters set recovery_attempts = 3 where message_type = '-4'`);
    clock.now = new Date(Date.now() + minutes);
    await worker.scan();
    counters.generationReplayScheduled('build-2', 2);
    await reader.forceFlush();
    const points = new Map<string, unknown[]>();
    for (const { scope, metrics: found } of exporter.getMetrics().flatMap((resource) => resource.scopeMetrics)) {
      expect(scope.name).toBe('Whizbang.DeadLetters');
      for (const { descriptor, dataPoints } of found) {
        points.set(
          descriptor.name,
          dataPoints.map(({ attributes, value }) => [attributes, value]),
        );
      }
    }
    expect(Object.fromEntries(points)).toEqual({
      'whizbang.dead_letters.recovered': [[{ source_table: 'wh_outbox' }, 1]],
      'whizbang.dead_letters.held': [[{ policy_name: 'HoldForReview', reason: 'ValidationError' }, 2]],
      'whizbang.dead_letters.permanently_failed': [[{ policy_name: 'AggressiveRetry', reason: 'Throttled' }, 1]],
      'whizbang.dead_letters.recovery_attempts': [[{ reason: 'LeaseExpired' }, 1]],
      'whizbang.dead_letters.generation_replay_scheduled': [[{ generation: 'build-2' }, 2]],
    });
    expect(counters.counters).toEqual({
      totalScans: 1,
      totalRecovered: 1,
      totalHeld: 2,
      totalPermanentlyFailed: 1,
      totalGenerationReplays: 2,
    });
  } finally {
    metrics.disable();
    await reader.shutdown();
  }
});
