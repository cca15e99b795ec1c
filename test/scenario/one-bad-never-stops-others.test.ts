import { setTimeout as delay } from 'node:timers/promises';

import { defineMessage } from '@whizbang/core';
import { createTransport } from '@whizbang/transport-rabbitmq';
import { connect } from 'amqplib';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/wait-for.js';
import { type TestBroker, testBroker } from '../fixtures/test-services.js';
import { OrderChanged } from './orders.js';
import { inTransaction, migratedDatabase, testService } from './test-service.js';

let broker: TestBroker;

beforeAll(async () => {
  broker = await testBroker();
});

/** `count` messages of one stream. */
const many = (order: string, count: number) =>
  Array.from({ length: count }, (_, index) => ({ order, number: index + 1 }));
const others = Array.from({ length: 50 }, (_, index) => `other-${index}`);
// Far below what the bad ones take: 30 s to the next try, 2 s for each message of the slow stream.
const deadline = { timeoutMs: 20_000 };

test('a stream whose handler always fails', async () => {
  const { url, pool } = await migratedDatabase();
  const whizbang = await testService({ database: url });
  const handled = new Map<string, number>();
  whizbang.handle(OrderChanged, ({ order }) => {
    if (order === 'bad') throw new Error('always');
    handled.set(order, (handled.get(order) ?? 0) + 1);
  });
  await whizbang.start();
  await inTransaction(pool, async (tx) => {
    await whizbang.publishMany(tx, OrderChanged, many('bad', 500));
    for (const order of others) await whizbang.publishMany(tx, OrderChanged, many(order, 4));
  });
  await waitFor(() => sum(handled) === others.length * 4, { message: 'all other streams', ...deadline });
  const left = async () => {
    const { rows } = await pool.query<{ count: number; tries: number; leased: number }>(
      `select count(*)::integer as count, sum(attempts)::integer as tries, count(instance_id)::integer as leased
       from whizbang.wh_inbox`,
    );
    return rows[0];
  };
  await waitFor(async () => (await left())?.leased === 0, { message: 'nothing in hand', ...deadline });
  expect(await left()).toEqual({ count: 500, tries: 1, leased: 0 });
});

test('a slow stream with 2,000 rows behind it does not fill the hands of the dispatcher', async () => {
  const { url, pool } = await migratedDatabase();
  const whizbang = await testService({ database: url, stopTimeoutMs: 100 });
  const handled = new Map<string, number>();
  whizbang.handle(OrderChanged, async ({ order }, { signal }) => {
    if (order === 'slow') await delay(2000, undefined, { signal });
    handled.set(order, (handled.get(order) ?? 0) + 1);
  });
  // In the inbox before anything is claimed, so that the slow stream comes first, all of it.
  const receiver = await testService({
    database: url,
    broker: 'memory:slow-stream',
    dispatcher: { enabled: false },
  });
  receiver.handle(OrderChanged, () => undefined);
  await receiver.start();
  await inTransaction(pool, (tx) => receiver.publishMany(tx, OrderChanged, many('slow', 2000)));
  for (const order of others) await inTransaction(pool, (tx) => receiver.publishMany(tx, OrderChanged, many(order, 4)));
  await waitFor(() => receiver.counters.received === 2000 + others.length * 4, {
    message: 'a full inbox',
    ...deadline,
  });
  await receiver.stop();

  await whizbang.start();
  await waitFor(() => sum(handled, 'slow') === others.length * 4, { message: 'all other streams', ...deadline });
  expect(handled.get('slow') ?? 0).toBeLessThan(20);
});

test('a destination that nobody is subscribed to', async () => {
  const Nowhere = defineMessage('nowhere', { schema: z.object({ n: z.number() }), destination: 'nowhere' });
  const { url, pool } = await migratedDatabase();
  const whizbang = await testService({ database: url, broker: createTransport(broker.url) });
  const handled = new Map<string, number>();
  whizbang.handle(OrderChanged, ({ order }) => void handled.set(order, (handled.get(order) ?? 0) + 1));
  await whizbang.start();
  await inTransaction(pool, async (tx) => {
    await whizbang.publishMany(
      tx,
      Nowhere,
      Array.from({ length: 1000 }, (_, n) => ({ n })),
    );
    for (const order of others) await whizbang.publishMany(tx, OrderChanged, many(order, 4));
  });
  await waitFor(() => sum(handled) === others.length * 4, { message: 'all other destinations', ...deadline });
  await waitFor(async () => (await failures()).length === 1, { message: 'the failures to be recorded', ...deadline });
  expect(await failures()).toEqual([{ destination: 'nowhere', failure_reason: 1, attempts: 1, count: 1000 }]);

  async function failures() {
    const { rows } = await pool.query(
      `select destination, failure_reason, attempts, count(*)::integer as count from whizbang.wh_outbox
       where instance_id is null group by 1, 2, 3`,
    );
    return rows as unknown[];
  }
});

test('a destination that the broker refuses', async () => {
  const Refused = defineMessage('refused', { schema: z.object({ n: z.number() }), destination: 'taken' });
  const { url, pool } = await migratedDatabase();
  // Somebody has an exchange of that name and of another kind.
  const model = await connect(broker.url);
  const channel = await model.createChannel();
  await channel.assertExchange('taken', 'fanout', { durable: true });
  await model.close();
  const whizbang = await testService({ database: url, broker: createTransport(broker.url) });
  const handled = new Map<string, number>();
  whizbang.handle(OrderChanged, ({ order }) => void handled.set(order, (handled.get(order) ?? 0) + 1));
  await whizbang.start();
  await inTransaction(pool, async (tx) => {
    await whizbang.publishMany(
      tx,
      Refused,
      Array.from({ length: 1000 }, (_, n) => ({ n })),
    );
    for (const order of others) await whizbang.publishMany(tx, OrderChanged, many(order, 4));
  });
  await waitFor(() => sum(handled) === others.length * 4, { message: 'all other destinations', ...deadline });
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::integer as count from (
       select destination from whizbang.wh_outbox union all select destination from whizbang.wh_dead_letters) kept
     where destination = 'taken'`,
  );
  expect(rows[0]?.count, 'refused messages wait or are dead-lettered').toBe(1000);
});

function sum(handled: ReadonlyMap<string, number>, without?: string): number {
  return [...handled].reduce((total, [order, count]) => (order === without ? total : total + count), 0);
}
