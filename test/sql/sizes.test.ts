import { beforeAll, describe, expect, test } from 'vitest';
import { migrate } from '@whizbang/core';
import type pg from 'pg';

import { migratedDatabase } from '../scenario/test-service.js';
import { WorkTable, workTables } from './work-table.js';

const me = '0190aaaa-0000-7000-8000-000000000001';
const batch = 500;
// Autovacuum comes after so many dead rows, which the next test checks; here the test does, so as not to wait for it.
const betweenVacuums = 20_000;

let pool: pg.Pool;
beforeAll(async () => {
  ({ pool } = await migratedDatabase());
});

/** Bytes of the table, and of each of its indexes. */
async function sizes(table: string): Promise<Record<string, number>> {
  const { rows } = await pool.query<{ name: string; bytes: string }>(
    `select relname as name, pg_relation_size(oid) as bytes from pg_class
     where oid = $1::regclass or oid in (select indexrelid from pg_index where indrelid = $1::regclass)`,
    [table],
  );
  return Object.fromEntries(rows.map(({ name, bytes }) => [name, Number(bytes)]));
}

describe.each(workTables)('the %s under a steady load', (name) => {
  test('reaches its size and keeps it, the table and each index, with retries and a message that stays', async () => {
    const schema = `steady_${name}`;
    await migrate({ database: pool, schema });
    const table = new WorkTable(name, pool, `${schema}.`);
    // What an autovacuum of its own would do in between belongs to the next test.
    await pool.query(`alter table ${table.table} set (autovacuum_enabled = false)`);
    let stored = 0;
    const round = async () => {
      await table.store(
        Array.from({ length: batch }, () => `${String.fromCodePoint(97 + (stored % 20))}${(stored += 1)}`),
      );
      // One in a hundred fails, once. More than a round stores: what failed in the last one comes along, and what waits does not grow.
      const rows = await table.claim(me, { limit: 2 * batch, maxBytes: 1e9 });
      const failing = new Set(rows.filter(({ attempts }) => attempts === 1).slice(-5));
      await table.fail(me, [...failing]);
      await table.complete(
        me,
        rows.filter((row) => !failing.has(row)),
      );
      await pool.query(`update ${table.table} set scheduled_for = clock_timestamp() where scheduled_for < 'infinity'`);
    };
    // The oldest of all, in the way of nobody: scheduled for later.
    await table.store(['-stays']);
    await pool.query(`update ${table.table} set scheduled_for = 'infinity' where message_type = '-stays'`);
    const afterEach: Record<string, number>[] = [];
    for (let period = 0; period < 4; period += 1) {
      for (let n = 0; n < betweenVacuums / batch; n += 1) await round();
      await pool.query(`vacuum ${table.table}`);
      afterEach.push(await sizes(table.table));
    }
    expect(stored).toBe(80_000);
    expect((await table.states()).length).toBe(6);
    const last = afterEach.at(-1) ?? {};
    for (const [relation, bytes] of Object.entries(last)) {
      const message = `${relation}: ${JSON.stringify(afterEach.map((all) => all[relation]))}`;
      if (relation === `wh_${name}`) {
        // Free pages are used again, up to a few.
        expect(bytes, message).toBeLessThanOrEqual((afterEach[1]?.[relation] ?? 0) * 1.1);
      } else {
        // An entry takes up to 32 bytes, and pages may be half empty. Where entries come in order, a page that a vacuum has emptied is
        // given out after the next, so that three periods are there; without reuse it would be all four.
        const first = afterEach[0]?.[relation] ?? 0;
        expect(bytes, message).toBeLessThanOrEqual(Math.max(betweenVacuums * 32 * 2, 3.2 * first));
      }
    }
  }, 240_000);
});

test('vacuum comes early and at full speed to the tables that are filled and emptied, whatever the server is set to', async () => {
  const { rows } = await pool.query<{ name: string; options: string[] }>(
    `select relname as name, reloptions as options from pg_class
     where relnamespace = 'whizbang'::regnamespace and relname in ('wh_outbox', 'wh_inbox')`,
  );
  expect(rows.map(({ name }) => name).toSorted()).toEqual(['wh_inbox', 'wh_outbox']);
  for (const { options } of rows) {
    expect(options).toEqual(
      expect.arrayContaining([
        'autovacuum_vacuum_scale_factor=0.0',
        `autovacuum_vacuum_threshold=${betweenVacuums}`,
        'autovacuum_vacuum_cost_delay=0',
        'vacuum_truncate=false',
      ]),
    );
  }
});
