import { createWhizbang, defineMessage } from '@whizbang/core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { WorkTable, migratedDatabase, workTables } from './work-table.js';

const holder = '0190aaaa-0000-7000-8000-000000000001';
const stranger = '0190aaaa-0000-7000-8000-000000000002';

let database: Awaited<ReturnType<typeof migratedDatabase>>;
beforeAll(async () => {
  database = await migratedDatabase();
});
afterAll(() => database.close());

// What an operator, a script or a clock that went wrong may have written into a row.
const times = ['infinity', '-infinity', '0044-03-15 BC', '1970-01-01', '294276-12-31'];

describe.each(workTables)('one row of the %s with an extreme time', (name) => {
  const columns = ['scheduled_for', 'lease_expiry', name === 'outbox' ? 'created_at' : 'received_at'];
  const cases = columns.flatMap((column) => times.map((time) => [column, time] as const));

  test.each(cases)('%s = %s stops no other, and breaks no answer', async (column, time) => {
    const table = new WorkTable(name, database.pool);
    await table.empty();
    await table.store(['-odd', '-1', '-2']);
    const leased = column === 'lease_expiry' ? `, instance_id = '${stranger}', attempts = 1` : '';
    await table.set(`${column} = '${time}'${leased}`, ['-odd']);

    const settlements =
      name === 'outbox' ? `'{}', '{}', false, '[]', '{}', '{}', '{}'` : `'[]', '{}', '{}', '{}', '{}', '{}'`;
    const exchange = async () => {
      const { rows } = await database.pool.query<{ outcome: string; message_type: string; idle_ms: number | null }>(
        `select outcome, message_type, idle_ms, age_ms from whizbang.exchange_${name}_work($1, ${settlements}, 10, 1000000, 60, false, '{}', '{}', '{}')`,
        [holder],
      );
      return rows;
    };
    expect((await exchange()).map((row) => row.message_type)).toEqual(expect.arrayContaining(['-1', '-2']));
    // Now that nothing is due, it asks when something will be.
    const [idle] = await exchange();
    expect(idle?.outcome).toBe('idle');
    expect(idle?.idle_ms === null || Number.isFinite(idle?.idle_ms)).toBe(true);
    await table.remove(['-1', '-2']);
    const [alone] = await exchange();
    expect(alone?.outcome).toBe('idle');
    expect(alone?.idle_ms === null || Number.isFinite(alone?.idle_ms)).toBe(true);

    const { rows: numbers } = await database.pool.query<{ value: number }>(
      `select value from whizbang.service_status() union all select oldest_age_ms from whizbang.backlog_statistics()`,
    );
    expect(numbers.map(({ value }) => value).filter((value) => !Number.isFinite(value))).toEqual([]);
    await database.pool.query(`select * from whizbang.find_stuck_${name}_rows(0, 10)`);
    await database.pool.query(`select e.* from ${table.table} r, whizbang.explain_message(r.message_id) e`);
    await database.pool.query('select whizbang.release_dead_instances(array[$1::uuid])', [holder]);
  });
});

test.each([
  ['the last that JavaScript has', new Date(8.64e15), '275760-09-13 00:00:00+00'],
  ['in the year 10000', new Date(Date.UTC(10_000, 0, 1)), '10000-01-01 00:00:00+00'],
  ['before our era', new Date(Date.UTC(-43, 2, 15)), '0044-03-15 00:00:00+00 BC'],
  ['the first that JavaScript has', new Date(-8.64e15), '-infinity'],
])('a message may be scheduled for a time %s', async (_, scheduledFor, stored) => {
  const whizbang = await createWhizbang({ service: 'orders', database: database.pool, broker: 'memory:extreme-times' });
  const Noted = defineMessage('noted', { schema: z.object({}), destination: 'notes' });
  const { messageId } = await whizbang.publishNow(Noted, {}, { scheduledFor });
  const client = await database.pool.connect();
  try {
    await client.query(`begin; set local timezone = 'UTC'; set local datestyle = 'ISO'`);
    const { rows } = await client.query<{ at: string }>(
      'select scheduled_for::text as at from whizbang.wh_outbox where message_id = $1',
      [messageId],
    );
    expect(rows).toEqual([{ at: stored }]);
  } finally {
    await client.query('rollback');
    client.release();
    await whizbang.stop();
  }
});
