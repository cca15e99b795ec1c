import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { type ClaimedRow, WorkTable, migratedDatabase, workTables } from './work-table.js';

const holder = '0190aaaa-0000-7000-8000-000000000001';
const stranger = '0190aaaa-0000-7000-8000-000000000002';

let database: Awaited<ReturnType<typeof migratedDatabase>>;
beforeAll(async () => {
  database = await migratedDatabase();
});
afterAll(() => database.close());

describe.each(workTables)('a row of the %s in hand', (name) => {
  let table: WorkTable;
  beforeEach(async () => {
    table = new WorkTable(name, database.pool);
    await table.empty();
  });

  const claimOne = async (): Promise<ClaimedRow> => {
    await table.store(['a1']);
    const [row] = await table.claim(holder);
    if (row === undefined) throw new Error('nothing was claimed');
    return row;
  };

  test('is gone when it is completed', async () => {
    const row = await claimOne();
    expect(await table.complete(holder, [row])).toEqual([]);
    expect(await table.states()).toEqual([]);
  });

  test('is kept and stamped when completed rows are retained, and never claimed again', async () => {
    const row = await claimOne();
    expect(await table.complete(holder, [row], { retain: true })).toEqual([]);
    const { rows } = await database.pool.query<{ processed: boolean; status: number; instance_id: string | null }>(
      `select processed_at is not null as processed, status, instance_id from ${table.table}`,
    );
    // Bit 4 is Published, which only an outbox row can be.
    expect(rows).toEqual([{ processed: true, status: name === 'outbox' ? 5 : 1, instance_id: null }]);
    expect(await table.claim(holder)).toEqual([]);
    expect(await table.complete(holder, [row], { retain: true })).toEqual([row.messageId]);
  });

  test('waits for its retry when it has failed: the bits are added, the attempt stays, the lease goes', async () => {
    const row = await claimOne();
    expect(await table.fail(holder, [row], { error: 'no route', reason: 1 })).toEqual([]);
    expect(await table.state('a1')).toMatchObject({
      attempts: 1,
      status: 32769,
      error: 'no route',
      failure_reason: 1,
      instance_id: null,
      leased: null,
    });
    expect(await table.claim(holder)).toEqual([]);
  });

  test('has its attempt given back when it is released, and is free at once', async () => {
    const row = await claimOne();
    expect(await table.release(holder, [row])).toEqual([]);
    expect(await table.state('a1')).toMatchObject({ attempts: 0, status: 1, instance_id: null, error: null });
    expect((await table.claim(stranger)).map((one) => one.attempts)).toEqual([1]);
  });

  test('is leased longer when the lease is renewed, for the same attempt', async () => {
    const row = await claimOne();
    await table.set(`lease_expiry = now() + interval '1 second'`, ['a1']);
    expect(await table.renew(holder, [row], 600)).toEqual([]);
    const { rows } = await database.pool.query<{ seconds: number; attempts: number }>(
      `select extract(epoch from lease_expiry - clock_timestamp())::integer as seconds, attempts from ${table.table}`,
    );
    expect(rows[0]?.attempts).toBe(1);
    expect(rows[0]?.seconds).toBeGreaterThan(500);
  });

  const late = {
    complete: (by: string, row: ClaimedRow) => table.complete(by, [row]),
    'complete and keep': (by: string, row: ClaimedRow) => table.complete(by, [row], { retain: true }),
    fail: (by: string, row: ClaimedRow) => table.fail(by, [row]),
    release: (by: string, row: ClaimedRow) => table.release(by, [row]),
    renew: (by: string, row: ClaimedRow) => table.renew(by, [row]),
  };

  describe.each(Object.entries(late))('to %s it changes nothing and is told so', (_, settle) => {
    test('when another instance holds the row', async () => {
      const row = await claimOne();
      await table.set(`lease_expiry = now() - interval '1 second'`, ['a1']);
      await table.claim(stranger);
      const before = await wholeRows(table);
      expect(await settle(holder, row)).toEqual([row.messageId]);
      expect(await wholeRows(table)).toEqual(before);
    });

    test('when the same instance holds a newer attempt', async () => {
      const row = await claimOne();
      await table.set(`lease_expiry = now() - interval '1 second'`, ['a1']);
      expect((await table.claim(holder)).map((one) => one.attempts)).toEqual([2]);
      const before = await wholeRows(table);
      expect(await settle(holder, row)).toEqual([row.messageId]);
      expect(await wholeRows(table)).toEqual(before);
    });

    test('when nobody holds the row any more, or it is gone', async () => {
      const row = await claimOne();
      await table.release(holder, [row]);
      const before = await wholeRows(table);
      expect(await settle(holder, row)).toEqual([row.messageId]);
      expect(await wholeRows(table)).toEqual(before);
      await table.remove(['a1']);
      expect(await settle(holder, row)).toEqual([row.messageId]);
    });
  });

  test('of a batch only the rows that are still held are settled, and the others are named', async () => {
    await table.store(['a1', 'b1', 'c1']);
    const rows = await table.claim(holder);
    await table.set(`instance_id = '${stranger}'`, ['b1']);
    const stale = rows.filter((row) => row.label === 'b1').map((row) => row.messageId);
    expect(await table.complete(holder, rows)).toEqual(stale);
    expect((await table.states()).map((row) => row.label)).toEqual(['b1']);
  });

  // 30 s × least(2^least(attempts, 10), 10)
  test.each([
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
  ])('that fails at attempt %i waits %i seconds', async (attempts, seconds) => {
    const row = await claimOne();
    await table.set(`attempts = ${attempts}`, ['a1']);
    const before = await databaseTime();
    await table.fail(holder, [{ messageId: row.messageId, attempts }]);
    const after = await databaseTime();
    const { rows } = await database.pool.query<{ ms: number }>(
      `select extract(epoch from scheduled_for)::float8 * 1000 as ms from ${table.table}`,
    );
    expect(rows[0]?.ms).toBeGreaterThanOrEqual(before + seconds * 1000);
    expect(rows[0]?.ms).toBeLessThanOrEqual(after + seconds * 1000);
  });

  test('counts tries and nothing else: claimed, failed, claimed, released, claimed, failed', async () => {
    await table.store(['a1']);
    const counted: number[] = [];
    const step = async (work: () => Promise<unknown>) => {
      await work();
      counted.push((await table.state('a1')).attempts);
    };
    const claim = () => step(() => table.claim(holder));
    const settle = (how: 'fail' | 'release') =>
      step(async () => {
        const { message_id: messageId, attempts } = await table.state('a1');
        await table[how](holder, [{ messageId, attempts }]);
        await table.set('scheduled_for = null', ['a1']);
      });
    await claim();
    await settle('fail');
    await claim();
    await settle('release');
    await claim();
    await settle('fail');
    expect(counted).toEqual([1, 1, 2, 1, 2, 2]);
  });

  test('is settled before the next claim of the same exchange, which respects a head that has just failed', async () => {
    await table.store(['a1', 'a2', 'b1', 'b2']);
    const rows = await table.claim(holder, { limit: 3 });
    const [head, behind, free] = rows;
    if (head === undefined || behind === undefined || free === undefined) throw new Error('three rows were expected');
    const tries = (list: readonly ClaimedRow[]) => [list.map((row) => row.messageId), list.map((row) => row.attempts)];
    const failed = [
      JSON.stringify([
        { messageId: head.messageId, attempt: head.attempts, completedStatus: 1, error: 'it broke', reason: 2 },
      ]),
      JSON.stringify({ generation: 'test' }),
    ];
    const claim = [100, 1_000_000, 60, false, [], [], []];
    const released = tries([behind]);
    const values =
      name === 'outbox'
        ? [holder, ...tries([free]), false, ...failed, ...released, ...claim]
        : [holder, ...failed, ...released, ...tries([]), ...claim];
    const { rows: answer } = await database.pool.query<{ outcome: string; message_type: string }>(
      `select outcome, message_type from whizbang.exchange_${name}_work(${values.map((_, index) => `$${index + 1}`).join(', ')})`,
      values,
    );
    expect(answer).toEqual([{ outcome: 'claimed', message_type: 'b2' }]);
    expect((await table.states()).map((row) => [row.label, row.attempts, row.blocked])).toEqual([
      ['a1', 1, false],
      ['a2', 0, true],
      ...(name === 'outbox' ? [] : [['b1', 1, false]]),
      ['b2', 1, false],
    ]);
  });
});

async function wholeRows(table: WorkTable): Promise<unknown[]> {
  const { rows } = await table.pool.query<Record<string, unknown>>(`select * from ${table.table}`);
  return rows;
}

async function databaseTime(): Promise<number> {
  const { rows } = await database.pool.query<{ ms: number }>(
    'select extract(epoch from clock_timestamp())::float8 * 1000 as ms',
  );
  return rows[0]?.ms ?? 0;
}

test('a handler that falls silent between its completion and its commit keeps its stream for ten seconds, not for ever', async () => {
  const table = new WorkTable('inbox', database.pool);
  await table.empty();
  await table.store(['a1', 'a2']);
  const rows = await table.claim(holder, { leaseSeconds: 0.1, limit: 1 });
  const client = await database.pool.connect();
  const ended = new Promise<Error>((resolve) => client.once('error', resolve));
  await client.query('begin');
  expect(await table.complete(holder, rows, { on: client })).toEqual([]);
  const { rows: shown } = await client.query('show idle_in_transaction_session_timeout');
  expect(shown).toEqual([{ idle_in_transaction_session_timeout: '10s' }]);
  // Its row is locked: it cannot be claimed, and what follows it may not pass.
  expect(await table.claim(stranger)).toEqual([]);
  expect((await ended).message).toMatch(/idle-in-transaction timeout/);
  client.release(true);
  expect((await table.claim(stranger)).map(({ label }) => label)).toEqual(['a1', 'a2']);
});

test('a shorter patience with idle transactions is left as it is', async () => {
  const table = new WorkTable('inbox', database.pool);
  await table.empty();
  await table.store(['a1']);
  const rows = await table.claim(holder);
  const client = await database.pool.connect();
  try {
    await client.query(`begin; set local idle_in_transaction_session_timeout = '3s'`);
    await table.complete(holder, rows, { on: client });
    const inside = await client.query('show idle_in_transaction_session_timeout');
    await client.query('commit');
    const outside = await client.query('show idle_in_transaction_session_timeout');
    expect([inside.rows, outside.rows]).toEqual([
      [{ idle_in_transaction_session_timeout: '3s' }],
      [{ idle_in_transaction_session_timeout: '0' }],
    ]);
  } finally {
    client.release();
  }
});
