import { InProcessBroker } from '@whizbang/core/testing';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { OrderChanged } from './orders.js';
import { KeptLog, migratedDatabase, testService } from './test-service.js';

test('what could not be stored is not acknowledged: the broker keeps it and delivers it again', async () => {
  const name = 'stored-before-acknowledged';
  const broker = InProcessBroker.named(name);
  const [orders, shipping] = [await migratedDatabase(), await migratedDatabase()];
  const log = new KeptLog();
  const publisher = await testService({ database: orders.url, service: 'orders', broker: `memory:${name}` });
  const consumer = await testService({
    database: shipping.url,
    service: 'shipping',
    broker: `memory:${name}`,
    logger: log,
  });
  const handled: number[] = [];
  consumer.handle(OrderChanged, async ({ number }) => void handled.push(number));
  await consumer.start();
  await publisher.start();

  await shipping.pool.query('alter table whizbang.wh_inbox rename to wh_inbox_away');
  await publisher.publishNow(OrderChanged, { order: 'a', number: 1 });
  await waitFor(() => log.about(/receiver cannot use the database/).length > 0, { message: 'a failure to store' });
  expect(broker.depth('shipping')).toBe(1);

  await shipping.pool.query('alter table whizbang.wh_inbox_away rename to wh_inbox');
  await waitFor(() => handled.length > 0, { message: 'the message', timeoutMs: 30_000 });
  await waitFor(() => broker.depth('shipping') === 0, { message: 'its acknowledgement' });
  expect(handled).toEqual([1]);
});
