// Changes orders at random and publishes each change in its transaction; every tenth transaction is rolled back.
import { createWhizbang } from '@whizbang/core';
import pg from 'pg';

import { OrderChanged } from './orders.js';

const { DATABASE_URL, BROKER_URL, MESSAGES, CONNECTIONS } = process.env as Record<string, string>;
const pool = new pg.Pool({ connectionString: DATABASE_URL, max: Number(CONNECTIONS) });
const whizbang = await createWhizbang({ service: 'orders', database: pool, broker: BROKER_URL ?? '' });
const { rows: streams } = await pool.query<{ name: string }>('select name from streams');
let left = Number(MESSAGES);
let rolledBack = 0;

async function changeOrder(client: pg.PoolClient): Promise<void> {
  const order = streams[Math.floor(Math.random() * streams.length)]?.name ?? '';
  const count = Math.min(1 + Math.floor(Math.random() * 4), left);
  const rollBack = Math.random() < 0.1;
  if (!rollBack) left -= count;
  await client.query('begin');
  // The row lock makes changes of one order wait for each other, as an application's own would.
  const { rows } = await client.query<{ last: number }>(
    'update streams set last = last + $1 where name = $2 returning last',
    [count, order],
  );
  const first = (rows[0]?.last ?? 0) - count + 1;
  for (let number = first; number < first + count; number += 1) {
    await whizbang.publish(client, OrderChanged, { order, number, rolledBack: rollBack });
  }
  await client.query(rollBack ? 'rollback' : 'commit');
  if (rollBack) rolledBack += count;
}

async function work(): Promise<void> {
  const client = await pool.connect();
  while (left > 0) await changeOrder(client);
  client.release();
}

const begun = performance.now();
await Promise.all(Array.from({ length: Number(CONNECTIONS) }, () => work()));
await whizbang.stop();
await pool.end();
process.stdout.write(`${JSON.stringify({ produced: true, rolledBack, ms: performance.now() - begun })}\n`);
