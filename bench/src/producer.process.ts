// Connections that each insert a row of their own and store messages, in one transaction, as fast as they can.
import pg from 'pg';

import { type ContenderKey, contenderOf } from './contenders/index.js';
import { ordersPlaced } from './order-placed.js';

export interface ProducerTask {
  readonly contender: ContenderKey;
  readonly database: string;
  readonly connections: number;
  /** Messages in one transaction, and in one call. */
  readonly batch: number;
  readonly seconds: number;
}

export interface ProducerResult {
  /** Of messages; after the first half second. */
  readonly perSecond: number;
  readonly stored: number;
}

process.setSourceMapsEnabled(false);
const task = JSON.parse(process.env['BENCH_TASK'] ?? '{}') as ProducerTask;
const warmUpMs = 500;

const producer = await contenderOf(task.contender).producer(task.database);
const pool = new pg.Pool({ connectionString: task.database, max: task.connections });
const clients = await Promise.all(Array.from({ length: task.connections }, () => pool.connect()));
const place = { name: 'place', text: 'insert into placed (customer, amount) values ($1, $2)' };

let [next, stored, counted] = [0, 0, 0];
const begun = performance.now();
const until = begun + warmUpMs + task.seconds * 1000;
// Counted from one commit to another: a call may take a good part of the time that there is.
let [firstAt, lastAt] = [0, 0];
await Promise.all(
  clients.map(async (client) => {
    while (performance.now() < until) {
      const orders = ordersPlaced(task.batch, 1000, next);
      next += task.batch;
      await client.query('begin');
      await client.query({ ...place, values: [`customer ${next % 100}`, next % 1000] });
      await producer.store(client, orders);
      await client.query('commit');
      stored += task.batch;
      const now = performance.now();
      if (firstAt > 0) counted += task.batch;
      else if (now > begun + warmUpMs) firstAt = now;
      lastAt = now;
    }
  }),
);
for (const client of clients) client.release();
const perSecond = counted > 0 ? (counted / (lastAt - firstAt)) * 1000 : (stored / (lastAt - begun)) * 1000;
const result: ProducerResult = { perSecond, stored };
process.stdout.write(`${JSON.stringify({ result })}\n`);
await producer.close();
await pool.end();
process.exit(0);
