import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { WorkTable, inTransaction, migratedDatabase, streamOf, workTables } from './work-table.js';

let database: Awaited<ReturnType<typeof migratedDatabase>>;
beforeAll(async () => {
  database = await migratedDatabase();
});
afterAll(() => database.close());

const holderOf = (index: number) => `0190aaaa-0000-7000-8000-0000000000${(index + 16).toString(16)}`;

describe.each(workTables)('eight instances that empty the same %s', (name) => {
  test('take no row twice, and of every stream only what follows what they took', async () => {
    const table = new WorkTable(name, database.pool);
    const labels = Array.from({ length: 2_400 }, (_, index) =>
      index % 12 === 0 ? `-${index}` : `${String.fromCodePoint(97 + (index % 20))}${index}`,
    );
    await table.store(labels);
    // A row is only handed out after those before it were completed, which is after they were noted here.
    const handled: string[] = [];
    const run = async (holder: string) => {
      for (let idle = 0; idle < 3;) {
        const rows = await table.claim(holder, { limit: 37 });
        if (rows.length === 0) {
          idle += 1;
          continue;
        }
        idle = 0;
        handled.push(...rows.map((row) => row.label));
        expect(await table.complete(holder, rows)).toEqual([]);
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, index) => run(holderOf(index))));
    // Whoever came last may have seen the rows of others locked.
    await run(holderOf(8));
    expect(handled.toSorted()).toEqual(labels.toSorted());
    for (const stream of new Set(labels.map((label) => label.slice(0, 1)))) {
      if (stream === '-') continue;
      const of = (list: readonly string[]) => list.filter((label) => label.startsWith(stream));
      expect(of(handled)).toEqual(of(labels));
    }
  });
});

describe.each(workTables)('claims of the %s with the plans of a table without statistics', (name) => {
  test.each(['on', 'off'])('never take more than they may (joins by hash and merge %s)', async (joins) => {
    const table = new WorkTable(name, database.pool);
    await table.empty();
    await database.pool.query(`delete from pg_statistic where starelid = '${table.table}'::regclass`);
    const labels = Array.from({ length: 600 }, (_, index) =>
      index % 3 === 0 ? `-${index}` : `s${index % 7}x${index}`,
    );
    await table.store(labels);
    const claimed: string[] = [];
    const clients = await Promise.all([1, 2, 3, 4].map(() => database.pool.connect()));
    try {
      await Promise.all(
        clients.map(async (client, index) => {
          for (const setting of ['hashjoin', 'mergejoin', 'material'])
            await client.query(`set enable_${setting} = ${joins}`);
          for (let idle = 0; idle < 3;) {
            const limit = index % 2 === 0 ? 1 : 10;
            const rows = await table.claim(holderOf(index), { limit, on: client });
            expect(rows.length).toBeLessThanOrEqual(limit);
            idle = rows.length === 0 ? idle + 1 : 0;
            claimed.push(...rows.map((row) => row.label));
            const { rows: held } = await client.query<{ count: number }>(
              `select count(*)::integer as count from ${table.table} where instance_id = $1`,
              [holderOf(index)],
            );
            expect(held[0]?.count).toBe(rows.length);
            await table.complete(holderOf(index), rows, { on: client });
          }
          for (const setting of ['hashjoin', 'mergejoin', 'material']) await client.query(`reset enable_${setting}`);
        }),
      );
    } finally {
      for (const client of clients) client.release();
    }
    for (let rows = await table.claim(holderOf(9)); rows.length > 0; rows = await table.claim(holderOf(9))) {
      claimed.push(...rows.map((row) => row.label));
      await table.complete(holderOf(9), rows);
    }
    expect(claimed.toSorted()).toEqual(labels.toSorted());
  });
});

test('two transactions that serialise a stream commit in the order of its sequence', async () => {
  const table = new WorkTable('outbox', database.pool);
  await table.empty();
  const lock = 'select whizbang.lock_streams(array[$1::uuid, $2::uuid])';
  const { second } = await inTransaction(database.pool, async (first) => {
    await first.query(lock, [streamOf('a'), streamOf('b')]);
    await table.store(['a1', 'b1'], { on: first });
    const later = inTransaction(database.pool, async (client) => {
      // The other way round: sorted, so that the two cannot deadlock.
      await client.query(lock, [streamOf('b'), streamOf('a')]);
      await table.store(['b2', 'a2'], { on: client });
    });
    await table.store(['c1']);
    expect((await table.states()).map((row) => row.label)).toEqual(['c1']);
    return { second: later };
  });
  await second;
  expect((await table.states()).map((row) => row.label)).toEqual(['a1', 'b1', 'c1', 'b2', 'a2']);
});
