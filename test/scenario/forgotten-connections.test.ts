import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { gateToDatabase } from '../fixtures/network/gate-to-database.js';
import { countRows } from './ledger.js';
import { NoteTaken } from './orders.js';
import { atEnd, inTransaction, migratedDatabase, testService } from './test-service.js';

test('a service whose connections to the database the network has forgotten goes on over new ones', async () => {
  const { url, pool } = await migratedDatabase();
  const { gate, gatedUrl } = await gateToDatabase(url);
  atEnd(() => gate.close());
  const service = await testService({
    database: gatedUrl,
    leaseSeconds: 1,
    dispatcher: { maxLeaseRenewals: 3 },
    // So that workers ask something at any time.
    wakeups: { safetyPollMs: 100, fallbackPollMs: 50 },
    failures: { baseSeconds: 0.1 },
  });
  const tries: string[] = [];
  service.handle(NoteTaken, async ({ note }, { tx, attempt }) => {
    tries.push(`${String(note)} ${attempt}`);
    if (note === 'first' && attempt === 1) gate.stall();
    await tx.query('select 1');
  });
  await service.start();
  await inTransaction(pool, (tx) => service.publish(tx, NoteTaken, { note: 'first' }));
  await waitFor(() => tries.includes('first 1'), { message: 'the handler that will not be answered' });
  await inTransaction(pool, (tx) => service.publish(tx, NoteTaken, { note: 'second' }));
  // Long enough for all that wakes by itself to have asked something.
  await waitFor(() => gate.held > 3, { message: 'workers that wait for an answer' });
  gate.resume('new');

  const waiting = async (): Promise<number> => {
    const { outbox, inbox } = await countRows(pool);
    return outbox + inbox;
  };
  await waitFor(async () => (await waiting()) === 0, { message: 'both to be handled', timeoutMs: 30_000 });
  expect(tries).toContain('second 1');
  expect(tries.filter((which) => which.startsWith('first')).length).toBeGreaterThan(1);
  expect(await service.stop()).toEqual({ unfinished: 0 });
  await waitFor(() => gate.connections === 0, { message: 'no connection to be left', timeoutMs: 3_000 });
}, 60_000);
