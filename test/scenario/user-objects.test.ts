import {
  type DeadLetterEntry,
  type DeadLetterRecoveryPolicy,
  DefaultDeadLetterRecoveryPolicy,
  type Logger,
  createWhizbang,
} from '@whizbang/core';
import { createInProcessTransport } from '@whizbang/core/testing';
import type pg from 'pg';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { OrderChanged } from './orders.js';
import { atEnd, migratedDatabase, testPool, testService } from './test-service.js';

/** Everything it needs is private: a method that is taken from it fails. */
class PrivateLogger implements Logger {
  readonly #lines: string[] = [];
  debug(_: object, message: string) {
    this.#lines.push(message);
  }
  info(_: object, message: string) {
    this.#lines.push(message);
  }
  warn(_: object, message: string) {
    this.#lines.push(message);
  }
  error(_: object, message: string) {
    this.#lines.push(message);
  }
  get lines(): readonly string[] {
    return this.#lines;
  }
}

class PrivatePolicy implements DeadLetterRecoveryPolicy {
  readonly #default = new DefaultDeadLetterRecoveryPolicy();
  readonly #asked: string[] = [];
  getPolicy(entry: DeadLetterEntry) {
    this.#asked.push(entry.messageType);
    return this.#default.getPolicy(entry);
  }
  getStreamMode(entry: DeadLetterEntry) {
    return this.#default.getStreamMode(entry);
  }
  shouldRecover(entry: DeadLetterEntry) {
    return this.#default.shouldRecover(entry);
  }
  get asked(): readonly string[] {
    return this.#asked;
  }
}

/** A transaction of a database library: its query needs its own object. */
class PrivateTransaction {
  readonly #client: pg.PoolClient;
  constructor(client: pg.PoolClient) {
    this.#client = client;
  }
  query(text: string, values: unknown[]) {
    return this.#client.query(text, values);
  }
}

class Shipping {
  readonly #handled: number[] = [];
  readonly handle = ({ number }: { number: number }): Promise<void> => {
    if (number < 0) throw new Error('as ordered');
    this.#handled.push(number);
    return Promise.resolve();
  };
  get handled(): readonly number[] {
    return this.#handled;
  }
}

test('objects of the application are called as they are: with private members, frozen, or behind a proxy', async () => {
  const { url, pool } = await migratedDatabase();
  const logger = Object.freeze(new PrivateLogger());
  const policy = new PrivatePolicy();
  const shipping = new Shipping();
  const transport = createInProcessTransport('memory:private', undefined);
  const whizbang = await createWhizbang(
    Object.freeze({
      service: 'shipping',
      database: testPool(url, 16),
      broker: transport,
      logger,
      deadLetters: Object.freeze({ policy }),
      dispatcher: { maxInboxAttempts: 1 },
    }),
  );
  atEnd(async () => void (await whizbang.stop()));
  whizbang.handle(OrderChanged, shipping.handle);
  await whizbang.start();
  const client = await pool.connect();
  try {
    await client.query('begin');
    await whizbang.publish(new PrivateTransaction(client), OrderChanged, { order: 'a', number: 1 });
    await whizbang.publish(new Proxy(client, {}), OrderChanged, Object.freeze({ order: 'b', number: -1 }));
    await client.query('commit');
  } finally {
    client.release();
  }
  await waitFor(() => shipping.handled.length === 1, { message: 'the message' });
  await waitFor(() => policy.asked.length > 0, { message: 'the policy to be asked', timeoutMs: 20_000 });
  expect(logger.lines).toContain('The broker is ready');
});

test('what a handler returns is waited for, be it a promise or only like one', async () => {
  const { url, pool } = await migratedDatabase();
  const whizbang = await testService({ database: url });
  let settle: (() => void) | undefined;
  const thenable = {
    // oxlint-disable-next-line unicorn/no-thenable -- the case
    then: (resolve: () => void) => {
      settle = resolve;
    },
  };
  whizbang.handle(OrderChanged, () => thenable as unknown as Promise<void>);
  await whizbang.start();
  await whizbang.publishNow(OrderChanged, { order: 'a', number: 1 });
  await waitFor(() => settle !== undefined, { message: 'the handler' });
  expect(whizbang.counters.handled).toBe(0);
  settle?.();
  await waitFor(() => whizbang.counters.handled === 1, { message: 'its end' });
  expect((await pool.query('select from whizbang.wh_inbox')).rowCount).toBe(0);
});

test.each([undefined, null, {}, 'handle', Promise.resolve()])('%j is refused as a handler', async (nothing) => {
  const whizbang = await testService({ database: 'postgres://db/x' });
  const handler = nothing as () => void;
  const refused = expect.objectContaining({ code: 'WHIZBANG_CONFIGURATION' }) as Error;
  expect(() => whizbang.handle(OrderChanged, handler)).toThrow(refused);
  expect(() => whizbang.handleBatch(OrderChanged, handler)).toThrow(refused);
  expect(() => whizbang.handle({} as typeof OrderChanged, () => undefined)).toThrow(refused);
});
