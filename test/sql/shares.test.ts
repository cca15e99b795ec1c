import { randomUUID } from 'node:crypto';

import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { type ClaimedRow, WorkTable, inTransaction, migratedDatabase, workTables } from './work-table.js';

const one = '0190aaaa-0000-7000-8000-000000000001';
const two = '0190aaaa-0000-7000-8000-000000000002';
const streams = Array.from({ length: 26 }, (_, index) => String.fromCodePoint(97 + index));
const parts = { outbox: 'publishes', inbox: 'handles' } as const;

let database: Awaited<ReturnType<typeof migratedDatabase>>;
beforeAll(async () => {
  database = await migratedDatabase();
});
afterAll(() => database?.close());

describe.each(workTables)('with several instances at the %s', (name) => {
  let table: WorkTable;
  beforeEach(async () => {
    table = new WorkTable(name, database.pool);
    await database.pool.query(`truncate ${table.table}, whizbang.wh_service_instances`);
  });

  const beats = (id: string, metadata: object) =>
    database.pool.query('select whizbang.record_heartbeat($1, $2, $3, 1, $4)', [id, 'orders', 'host', metadata]);
  const takesPart = (id: string) => beats(id, { [parts[name]]: true });
  const letters = (rows: readonly ClaimedRow[]) => new Set(rows.map(({ label }) => label.replace(/\d+$/, '')));

  /** A claim that keeps to its share; without it, one of eight looks at everything. */
  const claimOfShare = (holder: string, limit?: number) =>
    inTransaction(database.pool, async (client: pg.PoolClient) => {
      await drawing(client, (value) => value < 0.875);
      return table.claim(holder, { on: client, ...(limit === undefined ? {} : { limit }) });
    });

  test('each takes whole streams of its own share, and both shares are all there is', async () => {
    await table.store([...streams, ...streams].map((letter, index) => `${letter}${index < streams.length ? 1 : 2}`));
    await takesPart(one);
    await takesPart(two);
    const [mine, theirs] = [await claimOfShare(one), await claimOfShare(two)];
    expect(mine.length + theirs.length).toBe(2 * streams.length);
    expect([...letters(mine)].filter((letter) => letters(theirs).has(letter))).toEqual([]);
    expect(Math.min(mine.length, theirs.length)).toBeGreaterThan(streams.length / 4);
  });

  test('who finds nothing in its share takes what there is', async () => {
    await table.store(streams.map((letter) => `${letter}1`));
    await takesPart(one);
    await takesPart(two);
    const mine = await claimOfShare(one);
    const theirs = await claimOfShare(one);
    expect(mine.length + theirs.length).toBe(streams.length);
    expect(theirs).not.toEqual([]);
  });

  test('one claim of eight looks at everything', async () => {
    await table.store(streams.map((letter) => `${letter}1`));
    await takesPart(one);
    await takesPart(two);
    const all = await inTransaction(database.pool, async (client: pg.PoolClient) => {
      await drawing(client, (value) => value >= 0.875);
      return table.claim(one, { on: client });
    });
    expect(all).toHaveLength(streams.length);
  });

  test('a long stream of the other share does not hide the streams behind it for ever', async () => {
    const [long = ''] = letters(await sharesOf(two));
    await table.store(Array.from({ length: 200 }, (_, index) => `${long}${index + 1}`));
    await table.store(streams.filter((letter) => letter !== long).map((letter) => `${letter}1`));
    // Twice two batches of five are not enough to see beyond it: the claim takes what there is.
    expect(letters(await claimOfShare(one, 5))).toEqual(new Set([long]));
    expect(letters(await claimOfShare(one, 100)).has(long)).toBe(false);
  });

  test.each([
    ['is silent', async () => void (await database.pool.query(silent, [two])), true],
    ['takes no part', async () => void (await beats(two, { [parts[name]]: false })), true],
    ['is of a version that says nothing', async () => void (await beats(two, {})), false],
  ])('an instance that %s', async (_, becomes, alone) => {
    await table.store(streams.map((letter) => `${letter}1`));
    await takesPart(one);
    await takesPart(two);
    await becomes();
    expect((await claimOfShare(one)).length === streams.length).toBe(alone);
  });

  test('an instance that nobody knows yet has no share, and takes from all', async () => {
    await table.store(streams.map((letter) => `${letter}1`));
    await takesPart(two);
    expect(await claimOfShare(randomUUID())).toHaveLength(streams.length);
  });

  /** What would be the share of an instance. */
  async function sharesOf(holder: string): Promise<readonly ClaimedRow[]> {
    await table.store(streams.map((letter) => `${letter}1`));
    await takesPart(one);
    await takesPart(two);
    const rows = await claimOfShare(holder);
    await database.pool.query(`truncate ${table.table}`);
    return rows;
  }
});

const silent = `update whizbang.wh_service_instances set last_heartbeat_at = now() - interval '1 minute' where instance_id = $1`;

/** Has the next `random()` of a session be as wanted. */
async function drawing(client: pg.PoolClient, wanted: (value: number) => boolean): Promise<void> {
  for (let seed = 0; seed < 1; seed += 0.01) {
    await client.query('select setseed($1)', [seed]);
    const { rows } = await client.query<{ value: number }>('select random() as value');
    if (wanted(rows[0]?.value ?? 0)) {
      await client.query('select setseed($1)', [seed]);
      return;
    }
  }
  throw new Error('no seed draws what is wanted');
}
