import { randomBytes } from 'node:crypto';

import { createWhizbang, defineMessage, migrate } from '@whizbang/core';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/wait-for.js';
import { testDatabase } from '../fixtures/test-services.js';

const OrderPlaced = defineMessage('orders.order-placed', {
  schema: z.object({ orderId: z.string() }),
  destination: 'orders',
  stream: (order) => order.orderId,
});

/** A migrated database in which nobody may do what was not granted, and a role with the given grants. */
async function roleWith(grants: (schema: string, role: string) => readonly string[]) {
  const { url } = await testDatabase();
  const owner = new pg.Pool({ connectionString: url, max: 2 });
  owner.on('error', () => undefined);
  await migrate({ database: owner, schema: 'My-App' });
  const role = `whizbang_${randomBytes(6).toString('hex')}`;
  await owner.query(`create role ${role} login password 'secret'`);
  await owner.query('revoke create on schema public from public');
  for (const grant of grants('"My-App"', role)) await owner.query(grant);
  const target = new URL(url);
  target.username = role;
  target.password = 'secret';
  const pool = new pg.Pool({ connectionString: target.href, max: 4 });
  pool.on('error', () => undefined);
  onTestFinished(async () => {
    await pool.end();
    await owner.query(`drop owned by ${role}`);
    await owner.query(`drop role ${role}`);
    await owner.end();
  });
  return { owner, pool, url: target.href, role };
}

const everythingAtRunTime = (schema: string, role: string) => [
  `grant usage on schema ${schema} to ${role}`,
  `grant select, insert, update, delete on all tables in schema ${schema} to ${role}`,
];

const enqueueOnly = (schema: string, role: string) => [
  `grant usage on schema ${schema} to ${role}`,
  `grant insert on ${schema}.wh_outbox to ${role}`,
  // ON CONFLICT reads the ids; the doorbells say whether somebody sleeps.
  `grant select (message_id) on ${schema}.wh_outbox to ${role}`,
  `grant select on ${schema}.wh_doorbells to ${role}`,
];

test('a role that owns nothing and may create nothing runs a service from publish to handler', async () => {
  const { owner, url } = await roleWith(everythingAtRunTime);
  const handled: string[] = [];
  const whizbang = await createWhizbang({
    service: 'shipping',
    database: url,
    broker: 'memory:least-privilege',
    schema: 'My-App',
    messages: [OrderPlaced],
  });
  whizbang.handle(OrderPlaced, async (order, { tx }) => {
    await tx.query('select 1');
    handled.push(order.orderId);
  });
  await whizbang.start();
  try {
    for (const orderId of ['1', '2', '3']) await whizbang.publishNow(OrderPlaced, { orderId });
    await waitFor(() => handled.length === 3, { message: 'three messages to be handled' });
    expect(handled.toSorted()).toEqual(['1', '2', '3']);
    expect(await whizbang.backlog()).toMatchObject({ outbox: { pending: 0 } });
  } finally {
    expect(await whizbang.stop()).toEqual({ unfinished: 0 });
  }
  const { rows } = await owner.query(
    'select (select count(*) from "My-App".wh_outbox) + (select count(*) from "My-App".wh_inbox) as left',
  );
  expect(rows).toEqual([{ left: '0' }]);
});

test('it may call migrate(), which finds nothing to do, takes no lock and runs no DDL', async () => {
  const { owner, url, pool } = await roleWith(everythingAtRunTime);
  await expect(pool.query('create table "My-App".mine (id integer)')).rejects.toThrow('permission denied');
  // Somebody who migrates at this moment holds the lock; waiting for it would show.
  const holder = await owner.connect();
  try {
    await holder.query(`select pg_advisory_lock(hashtext('whizbang migrate'), hashtext('My-App'))`);
    expect(await migrate({ database: url, schema: 'My-App' })).toEqual({ applied: [] });
  } finally {
    holder.release(true);
  }
});

test('a role that may only enqueue stores from SQL and through publish, and can read and change nothing', async () => {
  const { pool, owner } = await roleWith(enqueueOnly);
  await pool.query(
    `select "My-App".store_outbox_messages('{"messageType": "orders.order-placed", "destination": "orders", "payload": {"orderId": "1"}}')`,
  );
  const whizbang = await createWhizbang({ service: 'orders', database: pool, broker: 'memory:', schema: 'My-App' });
  const client = await pool.connect();
  try {
    await client.query('begin');
    await whizbang.publish(client, OrderPlaced, { orderId: '2' });
    await client.query('commit');
  } finally {
    client.release();
  }
  await whizbang.publishNow(OrderPlaced, { orderId: '3' });
  await whizbang.stop();
  const { rows } = await owner.query(`select event_data ->> 'orderId' as id from "My-App".wh_outbox order by sequence`);
  expect(rows).toEqual([{ id: '1' }, { id: '2' }, { id: '3' }]);
  for (const refused of [
    'select event_data from "My-App".wh_outbox',
    'delete from "My-App".wh_outbox',
    `update "My-App".wh_outbox set attempts = 0`,
    `select * from "My-App".claim_orphaned_outbox(gen_random_uuid(), 1, 1, 1)`,
    `select "My-App".arm_doorbell('outbox', gen_random_uuid())`,
    'select 1 from "My-App".wh_inbox',
  ]) {
    await expect(pool.query(refused)).rejects.toThrow('permission denied');
  }
});

test('a role that lacks a grant is told so in one sentence that names the schema', async () => {
  const { url } = await roleWith((schema, role) => [`grant usage on schema ${schema} to ${role}`]);
  const whizbang = await createWhizbang({ service: 'orders', database: url, broker: 'memory:', schema: 'My-App' });
  await expect(whizbang.start()).rejects.toMatchObject({
    code: 'WHIZBANG_DATABASE_UNAVAILABLE',
    message: expect.stringMatching(/permission denied for table wh_schema_migrations.*'My-App'/) as string,
  });
});
