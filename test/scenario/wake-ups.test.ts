import { setTimeout as delay } from 'node:timers/promises';

import { migrate } from '@whizbang/core';
import { createTransport } from '@whizbang/transport-rabbitmq';
import pg from 'pg';
import { beforeAll, expect, test } from 'vitest';

import { startPostgres, waitFor } from '../fixtures/index.js';
import { type TestBroker, testBroker } from '../fixtures/test-services.js';
import { OrderChanged } from './orders.js';
import { KeptLog, atEnd, inTransaction, migratedDatabase, testPool, testService, untilAsleep } from './test-service.js';

// What is not woken sleeps longer than any test.
const wakeups = { safetyPollMs: 600_000 };
const rounds = Number(process.env['WHIZBANG_SCENARIO_ROUNDS'] ?? 300);

let broker: TestBroker;

beforeAll(async () => {
  broker = await testBroker();
});

test(
  `no wake-up is lost around the moment of falling asleep, in ${rounds} rounds`,
  async () => {
    const { url, pool } = await migratedDatabase();
    let heard: ((number: number) => void) | undefined;
    const whizbang = await testService({ database: url, wakeups });
    whizbang.handle(OrderChanged, ({ number }) => heard?.(number));
    await whizbang.start();
    for (let round = 0; round < rounds; round += 1) {
      const handled = new Promise<number>((resolve) => (heard = resolve));
      // Workers look again after 2, 5 and 10 ms, arm, and look until old writers have ended: all of it lies within this.
      const before = Math.random() * 25;
      const open = Math.random() * 25;
      await inTransaction(pool, async (tx) => {
        await delay(before);
        await whizbang.publish(tx, OrderChanged, { order: `order-${round % 7}`, number: round });
        await delay(open);
      });
      const late = delay(2000, 'late', { ref: false });
      expect(await Promise.race([handled, late]), `round ${round}: ${before} ms, then open for ${open} ms`).toBe(round);
    }
  },
  60_000 + rounds * 500,
);

test('without its listening connection it polls, and listens again', async () => {
  const { url, pool } = await migratedDatabase();
  const log = new KeptLog();
  const numbers: number[] = [];
  const whizbang = await testService({ database: url, wakeups, logger: log });
  whizbang.handle(OrderChanged, ({ number }) => void numbers.push(number));
  await whizbang.start();
  await untilAsleep(pool, 2);

  const listeners = `select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'whizbang-listener' and datname = current_database()`;
  for (const round of [1, 2, 3]) {
    expect((await pool.query(listeners)).rowCount).toBe(1);
    await whizbang.publishNow(OrderChanged, { order: 'a', number: round });
    await waitFor(() => numbers.at(-1) === round, { message: `message ${round}`, timeoutMs: 5000 });
    await waitFor(() => log.about(/Notifications arrive again/).length === round, { message: 'listening again' });
    await untilAsleep(pool, 2);
  }
  expect(log.about(/Notifications do not arrive/)).toHaveLength(3);
  await whizbang.publishNow(OrderChanged, { order: 'a', number: 4 });
  await waitFor(() => numbers.at(-1) === 4, { message: 'a message by notification', timeoutMs: 5000 });
});

test('of two sleeping publishers, both wake for more than one can carry', async () => {
  const { url, pool } = await migratedDatabase();
  const consumer = await testService({
    database: url,
    broker: createTransport(broker.url),
    publisher: { enabled: false },
  });
  consumer.handleBatch(OrderChanged, () => undefined);
  await consumer.start();
  const publisher = () =>
    testService({
      service: 'orders',
      database: url,
      broker: createTransport(broker.url),
      publisher: { batchSize: 10 },
      wakeups,
    });
  const publishers = [await publisher(), await publisher()];
  await Promise.all(publishers.map((one) => one.start()));
  await untilAsleep(pool, 3);

  const orders = Array.from({ length: 2000 }, (_, index) => ({ order: `order-${index}`, number: 1 }));
  await inTransaction(pool, (tx) => consumer.publishMany(tx, OrderChanged, orders));
  await waitFor(() => consumer.counters.handled === 2000, { message: 'all to be handled', timeoutMs: 30_000 });
  expect(publishers.map((one) => one.counters.published).reduce((a, b) => a + b)).toBe(2000);
  for (const one of publishers) expect(one.counters.published).toBeGreaterThan(0);
});

test('a pool of the user that has its password as an option listens like one with a URL', async () => {
  const server = await startPostgres({ private: true, settings: { fsync: 'off' } });
  atEnd(() => server.stop());
  const { url } = await server.createDatabase();
  const admin = testPool(url);
  await migrate({ database: admin });
  const { rows: files } = await admin.query<{ hba_file: string }>('show hba_file');
  // From here on nobody is trusted.
  await admin.query(`create role app login superuser password 'hidden from enumeration'`);
  await admin.query(`copy (select 'host all all all scram-sha-256') to ${pg.escapeLiteral(files[0]?.hba_file ?? '')}`);
  await admin.query('select pg_reload_conf()');

  const { hostname: host, port, pathname } = new URL(url);
  const own = {
    host,
    port: Number(port),
    database: pathname.slice(1),
    user: 'app',
    connectionTimeoutMillis: 10_000,
  };
  const refused = async () =>
    new pg.Client(own).connect().then(
      () => false,
      () => true,
    );
  await waitFor(refused, { message: 'the server to ask for passwords' });
  const pool = new pg.Pool({ ...own, password: 'hidden from enumeration' });
  pool.on('error', () => undefined);
  atEnd(() => pool.end());
  const whizbang = await testService({ database: pool });
  await whizbang.start();
  await waitFor(async () => (await whizbang.status()).wakeupsHealthy, { message: 'notifications to arrive' });
  expect(whizbang.brokerReady).toBe(true);
});
