import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { WorkRows, failureDatabase, tables } from './work-rows.js';

const holder = '0190aaaa-0000-7000-8000-000000000001';
const MaxAttemptsExceeded = 5;

let database: Awaited<ReturnType<typeof failureDatabase>>;
beforeAll(async () => {
  database = await failureDatabase();
});
afterAll(() => database.close());

// The table of the seed: 30 s × least(2^least(attempts, 10), 10).
const delays = [
  [0, 30],
  [1, 60],
  [2, 120],
  [3, 240],
  [4, 300],
  [5, 300],
  [6, 300],
  [7, 300],
  [8, 300],
  [9, 300],
  [10, 300],
  [11, 300],
  [12, 300],
] as const;

describe.each(tables)('a failure in the %s', (name) => {
  let rows: WorkRows;
  beforeEach(async () => {
    rows = new WorkRows(name, database.pool);
    await rows.empty();
  });

  const makeDue = () => rows.set('scheduled_for = now()', 'a1');

  test.each(delays)('at %i attempts waits %i seconds, to the millisecond', async (attempts, seconds) => {
    await rows.store('a1');
    const claimed = await rows.claimOne(holder);
    await rows.set(`attempts = ${attempts}`, 'a1');
    const report = JSON.stringify([{ messageId: claimed.messageId, attempt: attempts, error: 'x', reason: 2 }]);
    const clock = async () => (await database.pool.query<{ at: Date }>('select clock_timestamp() as at')).rows[0]?.at;
    const before = await clock();
    await database.pool.query(`select * from whizbang.report_failures($1, $2, $3, '{"maxAttempts":null}')`, [
      name,
      holder,
      report,
    ]);
    const after = await clock();
    // Less the delay of the table, its time is the time of the call: between these two, which are milliseconds apart.
    const { rows: called } = await database.pool.query<{ at: Date }>(
      `select scheduled_for - $1 * interval '1 second' as at from ${rows.table}`,
      [seconds],
    );
    expect(called[0]?.at.getTime()).toBeGreaterThanOrEqual(before?.getTime() ?? Infinity);
    expect(called[0]?.at.getTime()).toBeLessThanOrEqual(after?.getTime() ?? 0);
    expect((await rows.row('a1')).attempts).toBe(attempts);
  });

  test('adds the Failed bit and what was completed, keeps error and reason, and gives up the lease', async () => {
    await rows.store('a1');
    const first = await rows.claimOne(holder);
    expect(await rows.fail(holder, [first], { completedStatus: 3, error: 'Network timeout', reason: 2 })).toEqual([
      'retry',
    ]);
    expect(await rows.row('a1')).toMatchObject({
      attempts: 1,
      status: 32768 | 3,
      error: 'Network timeout',
      failure_reason: 2,
      instance_id: null,
      lease_expiry: null,
    });
    // Bits are only ever added: a later failure that completed less takes nothing away.
    await makeDue();
    await rows.fail(holder, [await rows.claimOne(holder)], { completedStatus: 1 });
    expect((await rows.row('a1')).status).toBe(32768 | 3);
  });

  test('is tried ten times by default, and the tenth failure dead-letters it', async () => {
    await rows.store('a1');
    for (let attempt = 1; attempt <= 10; attempt += 1) {
      const claimed = await rows.claimOne(holder);
      expect(claimed.attempts).toBe(attempt);
      const outcome = await rows.fail(holder, [claimed], {
        error: `failure ${attempt}`,
        reason: attempt === 10 ? 8 : 2,
      });
      expect(outcome).toEqual([attempt === 10 ? 'dead' : 'retry']);
      if (attempt < 10) await makeDue();
    }
    expect(await rows.rows()).toEqual([]);
    expect(await rows.dead()).toMatchObject([
      {
        failure_reason: MaxAttemptsExceeded,
        last_failure_reason: 8,
        error_text: 'failure 10',
        attempts_when_dlq: 10,
        recovery_status: 0,
        recovery_attempts: 0,
        dead_lettered_by: holder,
      },
    ]);
  });

  test('is tried as often as the cap says, and without one for ever', async () => {
    await rows.store('a1', 'b1');
    const [capped, endless] = await rows.claim(holder);
    await rows.set('attempts = 3', 'a1');
    await rows.set('attempts = 1000000', 'b1');
    const at = (row: typeof capped, attempts: number) => [{ messageId: row?.messageId ?? '', attempts }];
    expect(await rows.fail(holder, at(capped, 3), {}, { maxAttempts: 3 })).toEqual(['dead']);
    expect(await rows.fail(holder, at(endless, 1_000_000), {}, { maxAttempts: null })).toEqual(['retry']);
    expect(await rows.row('b1')).toMatchObject({ attempts: 1_000_000 });
  });

  test.each([
    ['SerializationError', 3],
    ['ValidationError', 4],
    ['MessageBodyTooLarge', 12],
    ['SecurityContextEstablishmentFailure', 10],
  ])('that is permanent (%s) dead-letters at once with its own reason', async (_, reason) => {
    await rows.store('a1');
    expect(await rows.fail(holder, [await rows.claimOne(holder)], { reason, permanent: true })).toEqual(['dead']);
    expect(await rows.dead()).toMatchObject([
      { failure_reason: reason, last_failure_reason: reason, attempts_when_dlq: 1, error_text: 'it broke' },
    ]);
  });

  test('follows the options: base, factor and jitter', async () => {
    const secondsOf = async (settings: Record<string, number>) => {
      await rows.empty();
      await rows.store('a1');
      await rows.fail(holder, [await rows.claimOne(holder)], {}, settings);
      const { rows: found } = await database.pool.query<{ seconds: number }>(
        `select extract(epoch from scheduled_for - clock_timestamp())::float8 as seconds from ${rows.table}`,
      );
      return found[0]?.seconds ?? Number.NaN;
    };
    expect(await secondsOf({ baseSeconds: 100, maxFactor: 1 })).toBeCloseTo(100, -1);
    const spread: number[] = [];
    for (let index = 0; index < 4; index += 1) {
      spread.push(await secondsOf({ baseSeconds: 10_000, maxFactor: 1, jitter: 0.5 }));
    }
    expect(Math.min(...spread)).toBeGreaterThan(7_000);
    expect(Math.max(...spread)).toBeLessThan(12_600);
    expect(new Set(spread.map((seconds) => Math.round(seconds / 10))).size).toBeGreaterThan(1);
  });

  test.each([
    ['a delay of its own', 5_000, 5],
    ['none at all', 0, 0],
    ['one that no clock can hold, which becomes 30 days', 1e300, 30 * 86_400],
    ['a negative one, which becomes now', -1e12, 0],
  ])('waits %s', async (_, delayMs, seconds) => {
    await rows.store('a1');
    expect(await rows.fail(holder, [await rows.claimOne(holder)], { delayMs })).toEqual(['retry']);
    const { rows: found } = await database.pool.query<{ seconds: number }>(
      `select extract(epoch from scheduled_for - clock_timestamp())::float8 as seconds from ${rows.table}`,
    );
    expect(found[0]?.seconds).toBeLessThanOrEqual(seconds);
    expect(found[0]?.seconds).toBeGreaterThan(seconds - 60);
  });

  test('can be answered by hand: infinity parks it, now() and NULL retry it at once', async () => {
    await rows.store('a1', 'a2');
    const [head, behind] = await rows.claim(holder);
    await rows.fail(holder, head === undefined ? [] : [head]);
    await rows.release(holder, behind === undefined ? [] : [behind]);
    expect(await rows.claim(holder)).toEqual([]);

    await rows.set(`scheduled_for = 'infinity'`, 'a1');
    // The net below the unblocking, which every heartbeat runs.
    await database.pool.query(`select whizbang.unblock_stranded_${name}_streams()`);
    const passed = await rows.claim(holder);
    expect(passed.map((row) => row.label)).toEqual(['a2']);
    await rows.release(holder, passed);

    for (const lever of ['now()', 'null']) {
      await rows.set(`scheduled_for = ${lever}`, 'a1');
      const [back] = await rows.claim(holder);
      expect(back).toMatchObject({ label: 'a1' });
      await rows.release(holder, back === undefined ? [] : [back]);
      expect((await rows.row('a1')).status & 32768).toBe(32768);
    }
  });
});

test('report_failures refuses what is neither outbox nor inbox', async () => {
  const report = database.pool.query(`select * from whizbang.report_failures('perspective', $1, '[]', '{}')`, [holder]);
  await expect(report).rejects.toThrow('report_failures: perspective is neither outbox nor inbox');
});
