import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { type ClaimedRow, WorkTable, inTransaction, migratedDatabase, workTables } from './work-table.js';

const me = '0190aaaa-0000-7000-8000-000000000001';
const other = '0190aaaa-0000-7000-8000-000000000002';

let database: Awaited<ReturnType<typeof migratedDatabase>>;
beforeAll(async () => {
  database = await migratedDatabase();
});
afterAll(() => database.close());

const numbered = (stream: string, from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `${stream}${from + index}`);

describe.each(workTables)('rows of the %s behind a head that does not move', (name) => {
  let table: WorkTable;
  beforeEach(async () => {
    table = new WorkTable(name, database.pool);
    await table.empty();
  });

  /** Claims and fails the oldest row, which then waits for its retry. */
  const failHead = async (): Promise<ClaimedRow> => {
    const [head] = await table.claim(other, { limit: 1 });
    if (head === undefined) throw new Error('there is no head');
    await table.fail(other, [head]);
    return head;
  };

  /** The retry of a head, claimed. */
  const retry = async (label: string): Promise<ClaimedRow> => {
    await table.set(`scheduled_for = now() - interval '1 second'`, [label]);
    const rows = await table.claim(other, { limit: 1 });
    expect(rows.map((row) => row.label)).toEqual([label]);
    return rows[0] as ClaimedRow;
  };

  /** Completes what can be claimed until nothing can; returns how many each look took. */
  const drain = async (): Promise<{ looks: number[]; labels: string[] }> => {
    const looks: number[] = [];
    const labels: string[] = [];
    for (;;) {
      const rows = await table.claim(other, { limit: 10_000 });
      if (rows.length === 0) return { looks, labels };
      looks.push(rows.length);
      labels.push(...rows.map((row) => row.label));
      await table.complete(other, rows);
    }
  };

  test('are visited once; afterwards claims of other streams read as little as in an empty table', async () => {
    await table.store(numbered('a', 1, 5_001));
    await failHead();
    // Each look takes as many out of the way as it may look at.
    for (let look = 0; look < 5; look += 1) expect(await table.claim(me, { limit: 1_000 })).toEqual([]);
    expect(await table.blockedLabels()).toHaveLength(5_000);
    await database.pool.query(`vacuum ${table.table}`);

    await table.store(['b1', 'b2']);
    const [first] = await table.claim(me, { limit: 1 });
    expect([first?.label, first?.candidates]).toEqual(['b1', 1]);
    const [second, ...more] = await table.claim(me, { limit: 1_000 });
    expect([second?.label, second?.candidates, more]).toEqual(['b2', 1, []]);
    const reads = await entriesReadBy(table, (on) => table.claim(me, { limit: 1_000, on }));
    expect(reads).toBeLessThan(20);
  });

  test('come back, more with every completion, in their order, when the head is completed', async () => {
    await table.store(numbered('a', 1, 300));
    await failHead();
    expect(await table.claim(me, { limit: 1_000 })).toEqual([]);
    expect(await table.blockedLabels()).toHaveLength(299);

    const head = await retry('a1');
    await table.complete(other, [head]);
    const { looks, labels } = await drain();
    expect(labels).toEqual(numbered('a', 2, 300));
    expect(await table.states()).toEqual([]);
    // The outbox doubles, so that a publisher's batches fill up quickly; the inbox keeps a lane filled.
    const growth = name === 'outbox' ? [2, 4, 8, 16, 32, 64, 128, 45] : looks;
    expect(looks).toEqual(growth);
    expect(looks.length).toBeLessThanOrEqual(10);
  });

  test('stay blocked when the retry of the head fails again, and when it is released', async () => {
    await table.store(['a1', 'a2', 'a3']);
    await failHead();
    expect(await table.claim(me)).toEqual([]);
    await table.fail(other, [await retry('a1')]);
    expect(await table.claim(me)).toEqual([]);
    await table.release(other, [await retry('a1')]);
    expect(await table.blockedLabels()).toEqual(['a2', 'a3']);
    expect((await drain()).labels).toEqual(['a1', 'a2', 'a3']);
  });

  test('are joined by rows that are stored later', async () => {
    await table.store(['a1', 'a2']);
    await failHead();
    expect(await table.claim(me)).toEqual([]);
    await table.store(['a3', 'b1']);
    expect(await table.claimLabels(me)).toEqual(['b1']);
    expect(await table.blockedLabels()).toEqual(['a2', 'a3']);
    await table.complete(other, [await retry('a1')]);
    await table.store(['a4']);
    expect((await drain()).labels).toEqual(['a2', 'a3', 'a4']);
  });

  test('that wait behind a head in the hands of another are taken out of the way only when that is asked for', async () => {
    await table.store(['a1', 'a2', 'a3']);
    const [head] = await table.claim(other, { limit: 1 });
    expect(await table.claim(me)).toEqual([]);
    expect(await table.blockedLabels()).toEqual([]);
    expect(await table.claim(me, { blockLeased: true })).toEqual([]);
    expect(await table.blockedLabels()).toEqual(['a2', 'a3']);
    await table.complete(other, [head as ClaimedRow]);
    expect((await drain()).labels).toEqual(['a2', 'a3']);
  });

  test('that are due before it do not keep it out of every look, however many they are', async () => {
    const streams = ['a', 'b', 'c', 'd'];
    const heads = streams.map((stream) => `${stream}1`);
    const followers = streams.map((stream) => `${stream}2`);
    await table.store([...heads, ...followers]);
    await table.set(`scheduled_for = now() - interval '1 minute'`, heads);
    await table.set(`scheduled_for = now() - interval '2 minutes'`, followers);
    // As many as fit into a look are followers, whose heads are due, too, but later.
    expect(await table.claim(me, { limit: 4 })).toEqual([]);
    const rows = await table.claim(me, { limit: 4 });
    expect(rows.map((row) => row.label)).toEqual(heads);
    await table.complete(me, rows);
    expect((await drain()).labels.sort()).toEqual(followers);
  });

  test('that wait behind a head whose lease then runs out come back with its completion', async () => {
    await table.store(['a1', 'a2']);
    await table.claim(other, { limit: 1 });
    expect(await table.claim(me, { blockLeased: true })).toEqual([]);
    await table.set(`lease_expiry = now() - interval '1 second'`, ['a1']);
    const again = await table.claim(me);
    expect(again.map((row) => [row.label, row.attempts])).toEqual([['a1', 2]]);
    await table.complete(me, again);
    expect(await table.claimLabels(me)).toEqual(['a2']);
  });

  describe.each([{ retain: false }, { retain: true }])('and completed rows are kept: $retain', ({ retain }) => {
    test('are not stranded by a claim that marks them while the head is being completed', async () => {
      await table.store(['a1', 'a2', 'a3']);
      await failHead();
      const head = await retry('a1');
      const completing = await inTransaction(database.pool, async (client) => {
        expect(await table.claim(me, { blockLeased: true, on: client })).toEqual([]);
        const completion = table.complete(other, [head], { retain });
        // The claim has marked them and not committed: the completion may not pass it by.
        await waitFor(() => isAnybodyWaitingForALock(), { message: 'the completion to wait for the claim' });
        return { completion };
      });
      expect(await completing.completion).toEqual([]);
      expect(await table.claimLabels(me)).toEqual(['a2', 'a3']);
    });

    test('are not stranded by a claim that begins while the head is being completed', async () => {
      await table.store(['a1', 'a2', 'a3']);
      await failHead();
      const head = await retry('a1');
      await inTransaction(database.pool, async (client) => {
        expect(await table.complete(other, [head], { retain, on: client })).toEqual([]);
        expect(await table.claim(me, { blockLeased: true })).toEqual([]);
      });
      expect(await table.claimLabels(me)).toEqual(['a2', 'a3']);
    });

    test('are not stranded by a claim whose snapshot is older than the completion', async () => {
      await table.store(['a1', 'a2', 'a3']);
      await failHead();
      const head = await retry('a1');
      const lateClaim = await claimHeldBack(table);
      // Held back between its snapshot and its locks: by then the head has been completed.
      const { claim } = await inTransaction(database.pool, async (gate) => {
        await gate.query('select pg_advisory_xact_lock(4711)');
        const claiming = lateClaim();
        await waitFor(() => isAnybodyWaitingForALock(), { message: 'the claim to have its snapshot' });
        await table.complete(other, [head], { retain });
        return { claim: claiming };
      });
      await claim;
      await table.release(me, await heldBy(table, me));
      expect(await table.blockedLabels()).toEqual([]);
      expect(await table.claimLabels(me)).toEqual(['a2', 'a3']);
    });
  });

  test.each([
    ['deleted', (head: string) => table.remove([head])],
    ['parked', (head: string) => table.set(`scheduled_for = 'infinity'`, [head])],
  ])('are freed from their strand when the head was %s by hand', async (_, handle) => {
    await table.store(['a1', 'a2', 'a3', 'b1', 'b2']);
    await failHead();
    expect(await table.claimLabels(other)).toEqual(['b1', 'b2']);
    await table.fail(other, await heldBy(table, other));
    await table.store(['b3']);
    expect(await table.claim(me)).toEqual([]);
    expect(await table.blockedLabels()).toEqual(['a2', 'a3', 'b3']);

    expect(await table.unblockStranded()).toBe(0);
    await handle('a1');
    expect(await table.claim(me)).toEqual([]);
    expect(await table.unblockStranded()).toBe(1);
    expect(await table.blockedLabels()).toEqual(['a3', 'b3']);
    const { labels } = await drain();
    expect(labels).toEqual(['a2', 'a3']);
  });

  test('are freed behind more healthy blocked streams than one look takes, and the looks begin anew at the end', async () => {
    const letters = ['a', 'b', 'c', 'd', 'e'];
    await table.store(letters.flatMap((letter) => [`${letter}1`, `${letter}2`]));
    await table.fail(other, await table.claim(other));
    await table.set(
      'blocked = true, scheduled_for = null, attempts = 0',
      letters.map((letter) => `${letter}2`),
    );
    await table.remove(['e1']);
    // Two streams in a look, as a heartbeat takes a thousand.
    const looks = [];
    let after: string | null = null;
    for (let look = 0; look < 4; look += 1) {
      const { freed, next_after: next } = await table.unblockStrandedFrom(after, 2);
      looks.push([freed, next === null ? 'end' : 'goes on']);
      after = next;
    }
    expect(looks).toEqual([
      [0, 'goes on'],
      [0, 'goes on'],
      [1, 'end'],
      [0, 'goes on'],
    ]);
    expect(await table.claimLabels(me)).toEqual(['e2']);
  });
});

async function heldBy(table: WorkTable, holder: string) {
  return (await table.states())
    .filter((row) => row.instance_id === holder)
    .map((row) => ({ messageId: row.message_id, attempts: row.attempts }));
}

/** The table's claim, made to wait for an advisory lock after its statement has its snapshot. */
async function claimHeldBack(table: WorkTable): Promise<() => Promise<unknown>> {
  const name = `claim_orphaned_${table.name}`;
  const { rows } = await table.pool.query<{ text: string }>('select pg_get_functiondef($1::regproc) as text', [
    `whizbang.${name}`,
  ]);
  const held = (rows[0]?.text ?? '')
    .replace(name, `${name}_held_back`)
    .replace(
      /with ready as materialized \(([^)]*?)where /,
      'with gate as materialized (select pg_advisory_xact_lock_shared(4711)), ready as materialized ($1where (select count(*) from gate) = 1 and ',
    );
  expect(held).toContain('from gate');
  await table.pool.query(held);
  return () => table.pool.query(`select * from whizbang.${name}_held_back($1, 100, 1000000, 60, true)`, [me]);
}

/** Index entries of the table that `work` reads. */
async function entriesReadBy(table: WorkTable, work: (client: pg.PoolClient) => Promise<unknown>): Promise<number> {
  return inTransaction(table.pool, async (client) => {
    const read = async () => {
      const { rows } = await client.query<{ entries: string }>(
        `select sum(pg_stat_get_xact_tuples_returned(indexrelid)) as entries from pg_index where indrelid = $1::regclass`,
        [table.table],
      );
      return Number(rows[0]?.entries);
    };
    const before = await read();
    await work(client);
    return (await read()) - before;
  });
}

async function isAnybodyWaitingForALock(): Promise<boolean> {
  const { rows } = await database.pool.query<{ waiting: number }>(
    `select count(*)::integer as waiting from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return (rows[0]?.waiting ?? 0) > 0;
}
