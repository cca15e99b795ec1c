import { setTimeout as delay } from 'node:timers/promises';

import { createWhizbang, migrate } from '@whizbang/core';
import type pg from 'pg';
import { beforeAll, expect, test } from 'vitest';

import { type Program, startPostgres, startRabbitmq, waitFor } from '../fixtures/index.js';
import { type TestBroker, testBroker } from '../fixtures/test-services.js';
import { Ledger } from './ledger.js';
import { OrderChanged } from './orders.js';
import { type ServiceSettings, startService } from './service-program.js';
import { atEnd, inTransaction, migratedDatabase, testPool, testService } from './test-service.js';

const stopTimeoutMs = 2000;
// On top of the deadline: two seconds for handlers that were told, and closing; the rest is for a machine that is busy.
const graceMs = 10_000;

let broker: TestBroker;

// Here, because starting the broker of all tests is no part of any deadline.
beforeAll(async () => {
  broker = await testBroker();
});

interface Load {
  readonly database: string;
  readonly broker: string;
  readonly handler: NonNullable<ServiceSettings['handler']>;
}

async function startUnderLoad({ database, broker: url, handler }: Load): Promise<Program> {
  const pool = testPool(database);
  await migrate({ database: pool });
  await Ledger.create(pool);
  const options = { service: 'shipping', database, broker: url, stopTimeoutMs };
  const program = await startService({ options, handler: { ...handler, announce: true } });
  await using producer = await createWhizbang({ service: 'orders', database: pool, broker: 'memory:' });
  const orders = Array.from({ length: 1000 }, (_, index) => ({ order: `order-${index % 100}`, number: 1 }));
  await inTransaction(pool, (tx) => producer.publishMany(tx, OrderChanged, orders));
  await program.waitForMessage(({ handling }) => handling !== undefined, { message: 'a handler', timeoutMs: 30_000 });
  return program;
}

/** SIGTERM; returns what `stop()` said. The program has to end by itself: nothing in it calls `process.exit`. */
async function stopAndExit(program: Program): Promise<{ unfinished: number }> {
  program.kill('SIGTERM');
  const { stopped, ms } = await program.waitForMessage(({ stopped }) => stopped !== undefined, {
    message: 'stop() to return',
    timeoutMs: stopTimeoutMs + graceMs + 10_000,
  });
  expect(ms).toBeLessThan(stopTimeoutMs + graceMs);
  const exit = await Promise.race([program.exited, delay(10_000, 'still running', { ref: false })]);
  expect(exit, 'a process whose service has stopped').toEqual({ code: 0, signal: null });
  return stopped as { unfinished: number };
}

async function leftovers(pool: pg.Pool) {
  const { rows } = await pool.query<{
    rows: number;
    leased: number;
    tried: number;
    doorbells: number;
    instances: number;
  }>(`
    select count(*)::integer as rows, (count(*) filter (where instance_id is not null))::integer as leased,
           (count(*) filter (where attempts <> 0))::integer as tried,
           (select count(*) from whizbang.wh_doorbells)::integer as doorbells,
           (select count(*) from whizbang.wh_service_instances)::integer as instances
    from (select instance_id, attempts from whizbang.wh_outbox union all select instance_id, attempts from whizbang.wh_inbox) r`);
  return rows[0];
}

test('handlers that finish: nothing stays leased, nothing untried is charged', async () => {
  const { url, pool } = await migratedDatabase();
  const program = await startUnderLoad({ database: url, broker: broker.url, handler: { delayMs: 100 } });
  expect(await stopAndExit(program)).toEqual({ unfinished: 0 });
  const left = await leftovers(pool);
  expect(left?.rows, 'there was load').toBeGreaterThan(0);
  expect(left).toMatchObject({ leased: 0, tried: 0, doorbells: 0, instances: 0 });
});

test('handlers that listen to their signal are aborted at the deadline, and their messages are given back', async () => {
  const { url, pool } = await migratedDatabase();
  const program = await startUnderLoad({ database: url, broker: broker.url, handler: { delayMs: 60_000 } });
  expect(await stopAndExit(program)).toEqual({ unfinished: 0 });
  expect(await leftovers(pool)).toMatchObject({ leased: 0, tried: 0, doorbells: 0, instances: 0 });
});

test('handlers that ignore their signal keep their own rows and nothing else', async () => {
  const { url, pool } = await migratedDatabase();
  const program = await startUnderLoad({ database: url, broker: broker.url, handler: { delayMs: 15_000, deaf: true } });
  program.kill('SIGTERM');
  const { stopped, ms } = await program.waitForMessage(({ stopped: report }) => report !== undefined, {
    message: 'stop() to return',
    timeoutMs: stopTimeoutMs + graceMs + 10_000,
  });
  expect(ms).toBeLessThan(stopTimeoutMs + graceMs);
  const { unfinished } = stopped as { unfinished: number };
  expect(unfinished).toBeGreaterThan(0);
  expect(unfinished).toBeLessThanOrEqual(8);
  // Once such a handler ends, nothing is left that would keep the process.
  expect(await Promise.race([program.exited, delay(30_000, 'still running', { ref: false })])).toEqual({
    code: 0,
    signal: null,
  });
  const left = await leftovers(pool);
  expect(left?.tried).toBeLessThanOrEqual(unfinished);
  expect(left?.leased).toBeLessThanOrEqual(unfinished);
});

test('no handler begins after stop() was called, what was begun is waited for, and the rest is back at once', async () => {
  const { url, pool } = await migratedDatabase();
  const whizbang = await testService({ database: url });
  const begun: number[] = [];
  let ended = 0;
  whizbang.handle(OrderChanged, async () => {
    begun.push(performance.now());
    await delay(500);
    ended += 1;
  });
  await whizbang.start();
  const orders = Array.from({ length: 500 }, (_, index) => ({ order: `order-${index}`, number: 1 }));
  await inTransaction(pool, (tx) => whizbang.publishMany(tx, OrderChanged, orders));
  await waitFor(() => begun.length > 8, { message: 'handlers at work' });
  const stoppedMs = performance.now();
  expect(await whizbang.stop()).toEqual({ unfinished: 0 });
  const inHand = ended;
  expect(begun.filter((ms) => ms > stoppedMs + 100)).toEqual([]);
  expect(ended).toBe(begun.length);
  // The application ends its pool as soon as stop() has returned: nothing may come after it.
  const left = await leftovers(pool);
  expect(left).toMatchObject({ leased: 0, tried: 0, instances: 0 });
  expect(left?.rows).toBe(orders.length - inHand);
  expect(ended).toBe(inHand);
});

test('with the broker away', async () => {
  const ownBroker = await startRabbitmq({ private: true });
  atEnd(() => ownBroker.stop());
  const { url, pool } = await migratedDatabase();
  const program = await startUnderLoad({ database: url, broker: ownBroker.url, handler: { delayMs: 100 } });
  await ownBroker.kill();
  await program.waitForMessage(({ log }) => String(log).includes('broker is not ready'), { message: 'the outage' });
  expect(await stopAndExit(program)).toEqual({ unfinished: 0 });
  expect(await leftovers(pool)).toMatchObject({ leased: 0, tried: 0, doorbells: 0, instances: 0 });
});

test('with the database away', async () => {
  const postgres = await startPostgres({ private: true, settings: { fsync: 'off' } });
  atEnd(() => postgres.stop());
  const database = await postgres.createDatabase();
  const program = await startUnderLoad({ database: database.url, broker: broker.url, handler: { delayMs: 100 } });
  await postgres.kill();
  await program.waitForMessage(({ log }) => String(log).includes('cannot use the database'), { message: 'the outage' });
  const { unfinished } = await stopAndExit(program);
  expect(unfinished).toBeGreaterThanOrEqual(0);
});

test('called twice, before start, and during start', async () => {
  const { url, pool } = await migratedDatabase();
  const twice = await testService({ database: url });
  await twice.start();
  const [first, second] = await Promise.all([twice.stop(), twice.stop()]);
  expect(first).toEqual({ unfinished: 0 });
  expect(second).toBe(first);

  const before = await testService({ database: url });
  expect(await before.stop()).toEqual({ unfinished: 0 });
  await expect(before.start()).rejects.toThrow(/start\(\) was called when the service was stopped/);

  const during = await testService({ database: url });
  const starting = during.start().then(
    () => 'started',
    (error: unknown) => error,
  );
  expect(await during.stop()).toEqual({ unfinished: 0 });
  await starting;
  await waitFor(async () => (await connectionsOf(pool, 'whizbang-')) === 0, {
    message: 'no connection of a stopped service',
  });
  expect(await leftovers(pool)).toMatchObject({ doorbells: 0, instances: 0 });
});

async function connectionsOf(pool: pg.Pool, prefix: string): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::integer as count from pg_stat_activity where datname = current_database() and application_name like $1`,
    [`${prefix}%`],
  );
  return rows[0]?.count ?? -1;
}
