import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { Ledger, insertHandled } from './ledger.js';
import { OrderChanged } from './orders.js';
import { startService } from './service-program.js';
import { migratedDatabase, testService } from './test-service.js';

// Of the types that a program is most likely to have its own ideas about: bigint, the timestamps, dates, numeric, json, and more.
const oids = [20, 21, 23, 114, 701, 1082, 1114, 1184, 1700, 2950, 3802] as const;

test('parsers that the application sets for the whole process do not reach what Whizbang reads', async () => {
  const { url, pool } = await migratedDatabase();
  const before = oids.map((oid) => [oid, pg.types.getTypeParser(oid)] as const);
  onTestFinished(() => {
    for (const [oid, parser] of before) pg.types.setTypeParser(oid, parser as (text: string) => unknown);
  });
  for (const oid of oids) pg.types.setTypeParser(oid, () => ({ parsedBy: 'the application' }));

  const whizbang = await testService({ database: url, leaseSeconds: 2, failures: { baseSeconds: 0.1 } });
  const attempts: unknown[] = [];
  const handled = new Promise<void>((resolve) => {
    whizbang.handle(OrderChanged, (_, { attempt }) => {
      attempts.push(attempt);
      if (attempt === 1) throw new Error('once more');
      resolve();
    });
  });
  await whizbang.start();
  await whizbang.publishNow(OrderChanged, { order: 'a', number: 1 }, { scheduledFor: new Date(Date.now() + 500) });
  await handled;
  expect(attempts).toEqual([1, 2]);
  await waitFor(async () => (await whizbang.status()).inbox.pending === 0, { message: 'the completion' });
  expect(await whizbang.backlog()).toEqual({
    outbox: { pending: 0, oldestAgeMs: 0 },
    inbox: { pending: 0, oldestAgeMs: 0 },
  });
  expect((await pool.query('select from whizbang.wh_inbox')).rowCount).toBe(0);
});

test('instances at the two ends of the day, on sessions of other zones, agree about leases and schedules', async () => {
  const { url, pool } = await migratedDatabase();
  await pool.query(`
    do $$ begin
      execute format('alter role %I in database %I set timezone = %L', current_user, current_database(), 'Asia/Kathmandu');
      execute format('alter role %I in database %I set datestyle = %L', current_user, current_database(), 'SQL, DMY');
    end $$`);
  const ledger = await Ledger.create(pool);
  const options = { service: 'shipping', database: url, broker: 'memory:time-zones', leaseSeconds: 2 };
  const handler = { delayMs: 10 };
  // Those that handle are 26 hours apart, by what their clocks say.
  const zones = ['Pacific/Kiritimati', 'Etc/GMT+12'];
  await Promise.all(
    zones.map((TZ) =>
      startService(
        { options: { ...options, publisher: { enabled: false }, receiver: { enabled: false } }, handler },
        { TZ },
      ),
    ),
  );
  const whizbang = await testService({ ...options, dispatcher: { enabled: false } });
  whizbang.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
    await tx.query(insertHandled, [messageId, order, number, attempt, false]);
  });
  await whizbang.start();
  const due = Date.now() + 3_000;
  for (let number = 1; number <= 40; number += 1) {
    await whizbang.publishNow(OrderChanged, { order: `order ${number % 4}`, number });
  }
  await whizbang.publishNow(OrderChanged, { order: 'later', number: 1 }, { scheduledFor: new Date(due) });
  await waitFor(async () => (await ledger.count()) === 41, { message: 'everything', timeoutMs: 20_000 });
  const { rows } = await pool.query<{ attempts: number; later: number }>(
    `select max(attempt) as attempts, extract(epoch from max(handled_at) filter (where stream = 'later'))::float8 * 1000 as later from handled`,
  );
  expect(rows[0]?.attempts).toBe(1);
  expect((rows[0]?.later ?? 0) - due).toBeGreaterThanOrEqual(0);
  expect((rows[0]?.later ?? 0) - due).toBeLessThan(3_000);
});
