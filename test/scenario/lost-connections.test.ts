import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { OrderChanged } from './orders.js';
import { atEnd, inTransaction, migratedDatabase, testService } from './test-service.js';

const cut = `select pg_terminate_backend(pid) from pg_stat_activity
  where application_name like 'whizbang-%' and datname = current_database()`;

test('connections that are cut once, with hands full of messages: all are handled, and soon', async () => {
  const { url, pool } = await migratedDatabase();
  const whizbang = await testService({ database: url });
  const handled = new Set<number>();
  let atWork = 0;
  whizbang.handle(OrderChanged, async ({ number }, { tx }) => {
    atWork += 1;
    // Every handler that is at work meets the cut.
    await tx.query('select pg_sleep(case when $1 < 8 then 0.5 else 0 end)', [number]);
    handled.add(number);
  });
  // In the inbox before anything is claimed, so that more than half a batch is in hand at once.
  const receiver = await testService({ database: url, dispatcher: { enabled: false }, broker: 'memory:hands-full' });
  receiver.handle(OrderChanged, () => undefined);
  await receiver.start();
  const orders = Array.from({ length: 190 }, (_, number) => ({ order: `order-${number % 50}`, number }));
  await inTransaction(pool, (tx) => receiver.publishMany(tx, OrderChanged, orders));
  await waitFor(() => receiver.counters.received === orders.length, { message: 'a full inbox' });
  await receiver.stop();
  await whizbang.start();
  await waitFor(() => atWork === 8, { message: 'handlers at work' });
  await pool.query(cut);
  await waitFor(() => handled.size === orders.length, { message: 'all to be handled', timeoutMs: 20_000 });
  expect((await pool.query('select from whizbang.wh_dead_letters')).rowCount).toBe(0);
});

test('thirty times all connections to the database are cut, and no listener is left that would pile up', async () => {
  const { url, pool } = await migratedDatabase();
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  process.on('warning', onWarning);
  atEnd(async () => void process.off('warning', onWarning));
  const whizbang = await testService({ database: url, failures: { baseSeconds: 0.02 }, leaseSeconds: 5 });
  const handled = new Set<number>();
  whizbang.handle(OrderChanged, async ({ number }, { tx }) => {
    await tx.query('select pg_sleep(0.005)');
    handled.add(number);
  });
  await whizbang.start();
  for (let round = 0; round < 30; round += 1) {
    await inTransaction(pool, (tx) =>
      whizbang.publishMany(
        tx,
        OrderChanged,
        Array.from({ length: 5 }, (_, index) => ({ order: `order-${index}`, number: round * 5 + index })),
      ),
    );
    await waitFor(() => handled.size > round, { message: 'some to be handled', timeoutMs: 20_000 });
    await pool.query(cut);
  }
  await waitFor(() => handled.size === 150, { message: 'all to be handled', timeoutMs: 60_000 });
  expect(warnings).toEqual([]);
  expect(await whizbang.stop()).toEqual({ unfinished: 0 });
}, 150_000);
