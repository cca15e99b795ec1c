// Changes orders at random and publishes each step in the transaction of its change, until SIGTERM. Some transactions and
// savepoints are rolled back, some stay open for long, some lock two orders in whatever order.
import { setTimeout as delay } from 'node:timers/promises';

import { createWhizbang } from '@whizbang/core';
import pg from 'pg';

import { OrderStep, orderCount } from './order-step.js';
import type { ProducerSettings } from './participant-settings.js';
import { Random } from './random.js';

const { database, seed, pauseMs } = JSON.parse(process.env['PRODUCER'] ?? '{}') as ProducerSettings;
const random = new Random(seed);
const pool = new pg.Pool({
  connectionString: database,
  max: 4,
  connectionTimeoutMillis: 2_000,
  query_timeout: 4_000,
  application_name: 'producer',
});
pool.on('error', () => undefined);
const whizbang = await createWhizbang({ service: 'orders', database: pool, broker: 'memory:' });
const stopping = new AbortController();
process.once('SIGTERM', () => stopping.abort());

async function step(client: pg.PoolClient, order: string, number: number, rolledBack: boolean): Promise<void> {
  const { messageId } = await whizbang.publish(client, OrderStep, {
    order,
    number,
    rolledBack,
    failures: random.percent(3) ? random.between(1, 3) : 0,
    hopeless: random.percent(1),
    filling: 'x'.repeat(random.percent(5) ? random.between(5_000, 60_000) : random.between(0, 300)),
  });
  await client.query('insert into committed (message_id, stream, number) values ($1, $2, $3)', [
    messageId,
    order,
    number,
  ]);
}

async function changeOrder(client: pg.PoolClient, rollsBack: boolean): Promise<void> {
  const order = `order-${random.between(1, orderCount)}`;
  const count = random.between(1, 4);
  // The row lock makes changes of one order wait for each other, as an application's own would.
  const { rows } = await client.query<{ last: number }>(
    'update streams set last = last + $1 where name = $2 returning last',
    [count, order],
  );
  const first = (rows[0]?.last ?? 0) - count + 1;
  if (random.percent(15)) {
    await client.query('savepoint attempt');
    await step(client, order, first, true);
    await client.query('rollback to savepoint attempt');
  }
  for (let number = first; number < first + count; number += 1) await step(client, order, number, rollsBack);
}

async function transaction(): Promise<void> {
  const client = await pool.connect();
  // A connection that is cut while nothing is asked of it; what is asked next says so.
  client.on('error', () => undefined);
  const rollsBack = random.percent(10);
  try {
    await client.query('begin');
    await changeOrder(client, rollsBack);
    if (random.percent(10)) await changeOrder(client, rollsBack);
    if (random.percent(3)) await delay(random.between(200, 2_000));
    await client.query(rollsBack ? 'rollback' : 'commit');
    client.release();
  } catch (error) {
    // Whatever became of it, the tables know; closing the connection rolls back what was not committed.
    client.release(error instanceof Error ? error : true);
  }
}

async function produce(): Promise<void> {
  while (!stopping.signal.aborted) {
    await transaction().catch(() => delay(200));
    await delay(pauseMs);
  }
}

process.stdout.write(`${JSON.stringify({ started: true })}\n`);
await Promise.all([produce(), produce(), produce()]);
await whizbang.stop();
await pool.end();
process.stdout.write(`${JSON.stringify({ stopped: 0, ms: 0 })}\n`);
