// 32 connections that each insert a row of their own and publish, in one transaction, as fast as they can.
import { createWhizbang } from '@whizbang/core';
import pg from 'pg';

import { OrderPlaced, orderPlaced } from './order-placed.js';

const { DATABASE_URL = '', BROKER_URL = '', SECONDS = '5' } = process.env;
const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 32 });
const whizbang = await createWhizbang({ service: 'orders', database: pool, broker: BROKER_URL });
const clients = await Promise.all(Array.from({ length: 32 }, () => pool.connect()));

let commits = 0;
const begun = performance.now();
const end = begun + Number(SECONDS) * 1000;
await Promise.all(
  clients.map(async (client, producer) => {
    for (let index = producer; performance.now() < end; index += 32) {
      await client.query('begin');
      await client.query('insert into placed (number) values ($1)', [index]);
      await whizbang.publish(client, OrderPlaced, orderPlaced(index));
      await client.query('commit');
      commits += 1;
    }
  }),
);
const ms = performance.now() - begun;
for (const client of clients) client.release();
await whizbang.stop();
await pool.end();
process.stdout.write(`${JSON.stringify({ perSecond: (commits / ms) * 1000 })}\n`);
