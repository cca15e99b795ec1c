import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { setImmediate } from 'node:timers/promises';

import { PermanentError, type Whizbang, defineMessage } from '@whizbang/core';
import type pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/wait-for.js';
import { Ledger, countRows, insertHandled } from './ledger.js';
import { OrderChanged } from './orders.js';
import { inTransaction, migratedDatabase, testService, untilAsleep } from './test-service.js';

const Serialized = defineMessage('orders.serialized', {
  schema: z.object({ order: z.string(), number: z.number() }),
  destination: 'orders',
  stream: ({ order }) => order,
  serializeStreams: true,
});

let pool: pg.Pool;
let url: string;
let ledger: Ledger;
let whizbang: Whizbang;

beforeEach(async () => {
  ({ pool, url } = await migratedDatabase());
  ledger = await Ledger.create(pool);
  whizbang = await testService({ database: url });
  whizbang.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
    await tx.query(insertHandled, [messageId, order, number, attempt, false]);
  });
  whizbang.handle(Serialized, async ({ order, number }, { tx, messageId, attempt }) => {
    await tx.query(insertHandled, [messageId, order, number, attempt, false]);
  });
  await whizbang.start();
});

/** Publishes a last message on another stream and waits for it: what was published before it has had its chance. */
async function everythingHandled(): Promise<void> {
  const { messageId } = await whizbang.publishNow(OrderChanged, { order: randomUUID(), number: 0 });
  const isHandled = async () => {
    const { rowCount } = await pool.query('select from handled where message_id = $1', [messageId]);
    const { outbox, inbox } = await countRows(pool);
    return rowCount === 1 && outbox + inbox === 0;
  };
  await waitFor(isHandled, { message: 'the last message, and nothing waiting' });
}

async function count(): Promise<number> {
  return await ledger.count();
}

describe('what is rolled back is never published', () => {
  test('with its transaction', async () => {
    const giveUp = inTransaction(pool, async (tx) => {
      await whizbang.publish(tx, OrderChanged, { order: 'a', number: 1 });
      throw new Error('changed my mind');
    });
    await expect(giveUp).rejects.toThrow('changed my mind');
    await everythingHandled();
    expect(await ledger.numbersOf('a')).toEqual([]);
  });

  test('with its savepoint', async () => {
    await inTransaction(pool, async (tx) => {
      await whizbang.publish(tx, OrderChanged, { order: 'a', number: 1 });
      await tx.query('savepoint half');
      await whizbang.publish(tx, OrderChanged, { order: 'a', number: 2 });
      await tx.query('rollback to savepoint half');
      await whizbang.publish(tx, OrderChanged, { order: 'a', number: 3 });
    });
    await everythingHandled();
    expect(await ledger.numbersOf('a')).toEqual([1, 3]);
  });

  test('when a later statement of the caller fails', async () => {
    const failing = inTransaction(pool, async (tx) => {
      await whizbang.publish(tx, OrderChanged, { order: 'a', number: 1 });
      await tx.query('select 1/0');
    });
    await expect(failing).rejects.toThrow('division by zero');
    await everythingHandled();
    expect(await ledger.numbersOf('a')).toEqual([]);
  });
});

describe('what is no transaction is refused, and nothing is stored', () => {
  const message = { order: 'a', number: 1 };
  const stored = async () => (await pool.query('select from whizbang.wh_outbox')).rowCount;

  test('a pool', async () => {
    await whizbang.stop();
    await expect(whizbang.publish(pool, OrderChanged, message)).rejects.toThrow(/was given a pool.*publishNow/);
    await expect(whizbang.publishMany(pool, OrderChanged, [message])).rejects.toThrow(/was given a pool/);
    expect(await stored()).toBe(0);
  });

  test('a client before its BEGIN and after its end', async () => {
    await whizbang.stop();
    const client = await pool.connect();
    try {
      await expect(whizbang.publish(client, OrderChanged, message)).rejects.toThrow(/is in no transaction/);
      await client.query('begin');
      await client.query('rollback');
      await expect(whizbang.publish(client, OrderChanged, message)).rejects.toThrow(/is in no transaction/);
      // One that is on its way counts as begun.
      const begun = client.query('begin');
      await whizbang.publish(client, OrderChanged, message);
      await begun;
      await client.query('rollback');
    } finally {
      client.release();
    }
    expect(await stored()).toBe(0);
  });

  test('the transaction of a handler that has ended', async () => {
    await whizbang.stop();
    const again = await testService({ database: url });
    let late: Promise<unknown> | undefined;
    again.handle(OrderChanged, (_, { publish }) => {
      // Before its COMMIT is answered, and long before the client is somebody else's.
      late ??= setImmediate().then(() => publish(Serialized, { order: 'late', number: 1 }));
      late.catch(() => undefined);
    });
    await again.start();
    await again.publishNow(OrderChanged, message);
    await waitFor(() => late !== undefined, { message: 'the handler' });
    await expect(late).rejects.toThrow(/is in no transaction/);
    await waitFor(async () => (await countRows(pool)).inbox === 0, { message: 'the commit' });
    expect(await stored()).toBe(0);
  });
});

test('what a handler left running when it ended writes nothing, by itself or with another message', async () => {
  await whizbang.stop();
  // One client, so that the next handler has the one of the handler before.
  const again = await testService({ database: url, dispatcher: { concurrency: 1 } });
  const events = new EventEmitter();
  const [nextIsRunning, triedLate] = [once(events, 'next is running'), once(events, 'tried late')];
  let late: Promise<unknown> | undefined;
  again.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
    if (number === 2) {
      events.emit('next is running');
      await triedLate;
      await tx.query(insertHandled, [messageId, order, number, attempt, false]);
      return;
    }
    const write = () => tx.query(insertHandled, [messageId, order, number, attempt, false]);
    late ??= nextIsRunning.then(write).finally(() => events.emit('tried late'));
    await Promise.all([late, Promise.reject(new PermanentError('one of two'))]);
  });
  await again.start();
  await again.publishNow(OrderChanged, { order: 'a', number: 1 });
  await again.publishNow(OrderChanged, { order: 'b', number: 2 });
  await waitFor(async () => (await count()) > 0, { message: 'the second message' });
  await expect(late).rejects.toThrow(/after the handler had ended/);
  expect([await ledger.numbersOf('a'), await ledger.numbersOf('b')]).toEqual([[], [2]]);
});

test.each(['repeatable read', 'serializable'])('a %s writer is seen promptly', async (isolation) => {
  const client = await pool.connect();
  try {
    // Its snapshot is older than the arming of the doorbells: it has to ring although it sees nobody asleep.
    await client.query(`begin isolation level ${isolation}`);
    await client.query('select count(*) from whizbang.wh_doorbells');
    // Publisher and dispatcher.
    await untilAsleep(pool, 2);
    await whizbang.publish(client, OrderChanged, { order: 'a', number: 1 });
    await client.query('commit');
  } finally {
    client.release();
  }
  // Well below the safety poll of ten seconds.
  await waitFor(async () => (await count()) === 1, { message: 'the message', timeoutMs: 4000 });
  expect(await ledger.numbersOf('a')).toEqual([1]);
});

test('two transactions on one stream that commit in the other order are both delivered', async () => {
  const [first, second] = [await pool.connect(), await pool.connect()];
  try {
    await first.query('begin');
    await second.query('begin');
    await whizbang.publish(first, OrderChanged, { order: 'a', number: 1 });
    await whizbang.publish(second, OrderChanged, { order: 'a', number: 2 });
    await second.query('commit');
    await waitFor(async () => (await count()) === 1, { message: 'the second' });
    await first.query('commit');
  } finally {
    first.release();
    second.release();
  }
  await waitFor(async () => (await count()) === 2, { message: 'the first' });
  expect(await ledger.numbersOf('a')).toEqual([2, 1]);
});

describe('serializeStreams', () => {
  test('makes the second writer of a stream wait for the first', async () => {
    const [first, second] = [await pool.connect(), await pool.connect()];
    try {
      await first.query('begin');
      await second.query('begin');
      await whizbang.publish(first, Serialized, { order: 'a', number: 1 });
      const order: string[] = [];
      const waiting = whizbang.publish(second, Serialized, { order: 'a', number: 2 }).then(async () => {
        order.push('second published');
        await second.query('commit');
      });
      await waitFor(async () => (await waitingForLock(pool)) === 1, { message: 'the second writer to wait' });
      order.push('first commits');
      await first.query('commit');
      await waiting;
      expect(order).toEqual(['first commits', 'second published']);
    } finally {
      first.release();
      second.release();
    }
    await everythingHandled();
    expect(await ledger.numbersOf('a')).toEqual([1, 2]);
  });

  test('does not deadlock writers of the same streams in other orders', async () => {
    const orders = Array.from({ length: 10 }, (_, index) => `order-${index}`);
    const write = (number: number) =>
      inTransaction(pool, (tx) => {
        const shuffled = orders.toSorted(() => Math.random() - 0.5);
        return whizbang.publishMany(
          tx,
          Serialized,
          shuffled.map((order) => ({ order, number })),
        );
      });
    await Promise.all(Array.from({ length: 12 }, (_, index) => write(index)));
    await everythingHandled();
    expect(await count()).toBe(12 * orders.length + 1);
  });
});

test('a transaction that stays open while the publisher falls asleep is published at its commit', async () => {
  const client = await pool.connect();
  try {
    await client.query('begin');
    await whizbang.publish(client, OrderChanged, { order: 'a', number: 1 });
    // Publisher and dispatcher.
    await untilAsleep(pool, 2);
    await whizbang.publish(client, OrderChanged, { order: 'a', number: 2 });
    await client.query('select pg_sleep(3)');
    await client.query('commit');
  } finally {
    client.release();
  }
  await waitFor(async () => (await count()) === 2, { message: 'both messages', timeoutMs: 4000 });
  expect(await ledger.numbersOf('a')).toEqual([1, 2]);
});

test('a transaction that stays open for longer than a lease is published once', async () => {
  await whizbang.stop();
  const services = await Promise.all(
    [1, 2].map(async () => {
      const service = await testService({ database: url, broker: 'memory:long-transactions', leaseSeconds: 1 });
      service.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
        await tx.query(insertHandled, [messageId, order, number, attempt, false]);
      });
      await service.start();
      return service;
    }),
  );
  await Promise.all(
    [1, 2, 3, 4].map((order) =>
      inTransaction(pool, async (tx) => {
        await services[0]?.publish(tx, OrderChanged, { order: `order ${order}`, number: 1 });
        await tx.query('select pg_sleep(2.5)');
      }),
    ),
  );
  await waitFor(async () => (await count()) === 4, { message: 'all of them' });
  for (const service of services) await service.stop();
  expect(services.map((service) => service.counters.published).reduce((a, b) => a + b)).toBe(4);
  expect((await pool.query('select max(attempt) as most from handled')).rows).toEqual([{ most: 1 }]);
});

test('a handler that throws leaves nothing behind, and is tried again', async () => {
  const Failing = defineMessage('orders.failing', {
    schema: z.object({ order: z.string() }),
    destination: 'failing',
    stream: ({ order }) => order,
  });
  await whizbang.stop();
  const again = await testService({ database: url });
  const attempts: number[] = [];
  again.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
    await tx.query(insertHandled, [messageId, order, number, attempt, false]);
  });
  again.handle(Failing, async ({ order }, { tx, publish, messageId, attempt }) => {
    attempts.push(attempt);
    await tx.query(insertHandled, [messageId, order, attempt, attempt, false]);
    await publish(OrderChanged, { order: 'from the handler', number: attempt });
    if (attempt === 1) throw new Error('not yet');
  });
  await again.start();
  await again.publishNow(Failing, { order: 'a' });

  const failed = async () =>
    (await pool.query('select from whizbang.wh_inbox where scheduled_for is not null')).rowCount;
  await waitFor(async () => (await failed()) === 1, { message: 'the first try to have failed' });
  expect(await count()).toBe(0);
  const { rows } = await pool.query('select attempts, error, failure_reason, instance_id from whizbang.wh_inbox');
  expect(rows).toEqual([
    { attempts: 1, error: expect.stringContaining('not yet') as string, failure_reason: 99, instance_id: null },
  ]);

  await pool.query('update whizbang.wh_inbox set scheduled_for = now()');
  await waitFor(async () => (await count()) === 2, {
    message: 'the second try and what it published',
    timeoutMs: 20_000,
  });
  expect(attempts).toEqual([1, 2]);
  expect(await ledger.numbersOf('from the handler')).toEqual([2]);
});

async function waitingForLock(observer: pg.Pool): Promise<number> {
  const { rows } = await observer.query<{ count: number }>(
    `select count(*)::integer as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows[0]?.count ?? -1;
}
