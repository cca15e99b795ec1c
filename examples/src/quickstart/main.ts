import { createWhizbang, defineMessage } from '@whizbang/core';
import pg from 'pg';
import { z } from 'zod';

const OrderPlaced = defineMessage('orders.order-placed', {
  schema: z.object({ orderId: z.string(), total: z.number() }),
  destination: 'orders', // the exchange or topic
  stream: (order) => order.orderId, // first in, first out per order
});
const database = process.env['DATABASE_URL'] ?? 'postgres://localhost/postgres';
const broker = process.env['BROKER_URL'] ?? 'memory:';
const client = new pg.Client(database);
await client.connect();
await client.query('create table if not exists parcels (order_id text, total numeric)');

// Two services in one process; usually each is a program of its own.
const shipping = await createWhizbang({ service: 'shipping', schema: 'shipping', database, broker });
const shipped = new Promise<string>((resolve) => {
  shipping.handle(OrderPlaced, async ({ orderId, total }, { tx }) => {
    await tx.query('insert into parcels values ($1, $2)', [orderId, total]); // commits with the message, or not at all
    resolve(orderId);
  });
});
await shipping.migrate();
await shipping.start();

const orders = await createWhizbang({ service: 'orders', schema: 'orders', database, broker });
await orders.migrate();
await orders.start();
await client.query('begin');
await orders.publish(client, OrderPlaced, { orderId: 'order-1', total: 49.9 }); // beside your own writes
await client.query('commit'); // from here on the message cannot be lost
console.log(`Shipped ${await shipped}.`);
await Promise.all([orders.stop(), shipping.stop(), client.end()]);
