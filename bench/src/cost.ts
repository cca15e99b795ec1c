import { setTimeout as delay } from 'node:timers/promises';

import { createWhizbang } from '@whizbang/core';
import { InProcessBroker } from '@whizbang/core/testing';
import { waitFor } from '@whizbang/test/fixtures';
import pg from 'pg';

import { fillInbox } from './inbox-fill.js';
import { OrderPlaced, orderPlaced, ordersPlaced } from './order-placed.js';
import { report } from './report.js';
import { BenchServices } from './services.js';
import { sizeOf } from './settings.js';

// What Postgres writes for each message, step by step. These are counts of the server: they do not depend on how fast it is.
const count = sizeOf('MESSAGES', 20_000);
const singles = Math.ceil(count / 10);

// Without checkpoints on the way: the whole pages that follow one would be counted for whoever comes first.
await using services = new BenchServices({ max_wal_size: '8GB', checkpoint_timeout: '1h', autovacuum: 'off' });
const database = await services.database();
const pool = services.pool(database, 1);
const monitor = services.pool(services.postgresUrl, 1);
await pool.query('create table handled (sequence integer)');
const orders = await services.service({ service: 'orders', database, broker: 'memory:' });

const rows = [
  await costOf('store, one in a transaction', singles, async (pool) => {
    const client = await pool.connect();
    for (let index = 0; index < singles; index += 1) {
      await client.query('begin');
      await orders.publish(client, OrderPlaced, orderPlaced(index));
      await client.query('commit');
    }
    client.release();
  }),
  await costOf('store, 1,000 in a call', count - singles, async (pool) => {
    const client = await pool.connect();
    for (let index = singles; index < count; index += 1000) {
      await client.query('begin');
      await orders.publishMany(client, OrderPlaced, ordersPlaced(Math.min(1000, count - index), 1000, index));
      await client.query('commit');
    }
    client.release();
  }),
  await costOf('publish: claim, send, delete', count, publishAll),
  await costOf('receive: store in the inbox, 200 at a time', count, (pool) => fillInbox(pool, count)),
  await costOf('handle, one row written by the handler', count, () => handleAll('single')),
  await costOf('receive, once more', count, (pool) => fillInbox(pool, count)),
  await costOf('handleBatch, one row for each message', count, () => handleAll('batch')),
];
await report({
  name: 'cost',
  measures: `what PostgreSQL counts for each of ${count} messages of 1 KB (${singles} of them stored singly); the beginning and the end of a worker are among it`,
  rows,
  goals: [],
  settings: {
    messages: count,
    Whizbang: 'defaults, in-process transport',
    PostgreSQL: 'defaults; no checkpoint, no autovacuum',
  },
  versions: services.versions,
  chart: {
    title: 'cost: write-ahead log for each message',
    unit: 'bytes',
    bars: rows.map(({ step, 'WAL bytes': bytes }) => ({ label: step, values: [bytes], ours: true })),
  },
});

async function publishAll(): Promise<void> {
  InProcessBroker.named('cost').tap(OrderPlaced.destination, () => undefined);
  const publisher = await createWhizbang({ service: 'orders', database, broker: 'memory:cost' });
  await publisher.start();
  await waitFor(() => publisher.counters.published === count, { message: 'an empty outbox', timeoutMs: 120_000 });
  await publisher.stop();
}

async function handleAll(way: 'single' | 'batch'): Promise<void> {
  const handler = await createWhizbang({
    service: 'shipping',
    database,
    broker: 'memory:',
    publisher: { enabled: false },
  });
  if (way === 'single') {
    handler.handle(OrderPlaced, async ({ sequence }, { tx }) => {
      await tx.query('insert into handled values ($1)', [sequence]);
    });
  } else {
    handler.handleBatch(OrderPlaced, async (messages) => {
      const sequences = messages.map(({ payload }) => payload.sequence);
      await messages[0]?.context.tx.query('insert into handled select unnest($1::integer[])', [sequences]);
    });
  }
  await handler.start();
  await waitFor(() => handler.counters.handled === count, { message: 'an empty inbox', timeoutMs: 300_000 });
  await handler.stop();
}

async function costOf(step: string, messages: number, work: (pool: pg.Pool) => Promise<void>) {
  const before = await counted();
  // A session that goes on may tell what it did ten seconds later; one that ends tells it at once.
  const own = new pg.Pool({ connectionString: database, max: 4 });
  await work(own);
  await own.end();
  const after = await counted();
  const per = (of: (one: typeof after) => number): number => (of(after) - of(before)) / messages;
  const updates = after.updates - before.updates;
  return {
    step,
    commits: per((one) => one.commits),
    'WAL bytes': per((one) => one.walBytes),
    'rows inserted': per((one) => one.inserts),
    'rows updated': per((one) => one.updates),
    '% of updates HOT': updates === 0 ? '' : ((after.hot - before.hot) / updates) * 100,
    'rows deleted': per((one) => one.deletes),
  };
}

async function counted() {
  // The server ends sessions a little after the client has.
  await delay(500);
  const { rows: wal } = await monitor.query<{ bytes: string }>(
    "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as bytes",
  );
  const { rows: ofDatabase } = await monitor.query<{ commits: string }>(
    'select xact_commit as commits from pg_stat_database where datname = $1',
    [new URL(database).pathname.slice(1)],
  );
  const { rows: ofTables } = await pool.query<Record<'inserts' | 'updates' | 'hot' | 'deletes', string>>(
    `select sum(n_tup_ins) as inserts, sum(n_tup_upd) as updates, sum(n_tup_hot_upd) as hot, sum(n_tup_del) as deletes
     from pg_stat_user_tables`,
  );
  return {
    walBytes: Number(wal[0]?.bytes),
    commits: Number(ofDatabase[0]?.commits),
    inserts: Number(ofTables[0]?.inserts),
    updates: Number(ofTables[0]?.updates),
    hot: Number(ofTables[0]?.hot),
    deletes: Number(ofTables[0]?.deletes),
  };
}
