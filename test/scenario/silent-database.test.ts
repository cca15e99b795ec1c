import type { Whizbang } from '@whizbang/core';
import pg from 'pg';
import { describe, expect, test } from 'vitest';

import { TcpGate } from '../fixtures/network/tcp-gate.js';
import { waitFor } from '../fixtures/index.js';
import { Ledger, insertHandled } from './ledger.js';
import { OrderChanged } from './orders.js';
import { KeptLog, atEnd, migratedDatabase, testPool, testService } from './test-service.js';

// Statements are given up after five seconds, and handlers when their lease has run out.
const leaseSeconds = 3;

interface Scene {
  readonly gate: TcpGate;
  /** The database through the gate. */
  readonly url: string;
  /** The database itself. */
  readonly pool: pg.Pool;
  readonly ledger: Ledger;
  readonly log: KeptLog;
}

async function openScene(): Promise<Scene> {
  const { url, pool } = await migratedDatabase();
  const through = new URL(url);
  const gate = new TcpGate({ host: through.hostname, port: Number(through.port) });
  await gate.open();
  atEnd(() => gate.close());
  through.hostname = '127.0.0.1';
  through.port = String(gate.port);
  return { gate, url: through.href, pool, ledger: await Ledger.create(pool), log: new KeptLog() };
}

/** Publishes past the gate, as another instance would. */
async function publish(scene: Scene, number: number): Promise<void> {
  const other = await testService({ database: scene.pool, publisher: { enabled: false } });
  await other.publishNow(OrderChanged, { order: `order ${number}`, number });
}

test('a database that ends every connection again and again stops nothing', { timeout: 90_000 }, async () => {
  const scene = await openScene();
  const pool = testPool(scene.url, 12);
  // Of our own and of the user's, with nobody else to listen for their errors.
  for (const database of [scene.url, pool]) {
    const whizbang = await testService({ database, broker: 'memory:cut', logger: scene.log });
    whizbang.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
      await tx.query(insertHandled, [messageId, order, number, attempt, false]);
    });
    await whizbang.start();
  }
  const sessions = `select count(pg_terminate_backend(pid))::integer as ended from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and application_name like 'whizbang%'`;
  for (let round = 1; round <= 10; round += 1) {
    await publish(scene, round);
    // After the round before, the user's pool may have done it all, and the others may not be back yet.
    await waitFor(async () => ((await scene.pool.query<{ ended: number }>(sessions)).rows[0]?.ended ?? 0) > 0, {
      message: 'connections to end',
    });
    await waitFor(async () => (await scene.ledger.count()) === round, {
      message: `message ${round}`,
      timeoutMs: 15_000,
    });
  }
  expect(await scene.ledger.report()).toMatchObject({ handled: 10, twice: 0 });
});

// A network that drops packets: connections stay open and nothing arrives any more, and new ones are as silent.
describe.each(['a URL', 'a pool of the user'])('a database given as %s falls silent', (given) => {
  const databaseOf = ({ gate, url }: Scene) => {
    if (given === 'a URL') return url;
    const pool = new pg.Pool({ connectionString: url, max: 16, connectionTimeoutMillis: 2_000 });
    pool.on('error', () => undefined);
    atEnd(() => {
      // What the gate still holds would keep the pool from ending.
      gate.cut();
      return pool.end();
    });
    return pool;
  };

  test('and the service goes on with new connections when there are any', { timeout: 90_000 }, async () => {
    const scene = await openScene();
    const whizbang: Whizbang = await testService({ database: databaseOf(scene), leaseSeconds, logger: scene.log });
    whizbang.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
      await tx.query(insertHandled, [messageId, order, number, attempt, false]);
    });
    await whizbang.start();
    await publish(scene, 1);
    await waitFor(async () => (await scene.ledger.count()) === 1, { message: 'the first message' });

    scene.gate.stall();
    await publish(scene, 2);
    await waitFor(
      () =>
        scene.log.about(/publisher cannot use the database/).length > 0 &&
        scene.log.about(/dispatcher cannot use the database/).length > 0,
      { message: 'the outage to be noticed', timeoutMs: 30_000 },
    );
    scene.gate.resume('new');
    await waitFor(async () => (await scene.ledger.count()) === 2, { message: 'the second', timeoutMs: 30_000 });
    expect((await scene.ledger.report()).twice).toBe(0);
  });

  test('while a handler waits for it, and the handler is ended with its lease', { timeout: 90_000 }, async () => {
    const scene = await openScene();
    const whizbang = await testService({ database: databaseOf(scene), leaseSeconds, logger: scene.log });
    const begun: number[] = [];
    whizbang.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
      await tx.query('select 1');
      begun.push(attempt);
      if (begun.length === 1) scene.gate.stall();
      await tx.query(insertHandled, [messageId, order, number, attempt, false]);
    });
    await whizbang.start();
    await publish(scene, 1);
    await waitFor(() => begun.length === 1, { message: 'the handler' });
    await waitFor(() => scene.log.about(/dispatcher cannot use the database/).length > 0, {
      message: 'the outage to be noticed',
      timeoutMs: 30_000,
    });
    scene.gate.resume('new');
    await waitFor(async () => (await scene.ledger.count()) === 1, { message: 'the message', timeoutMs: 30_000 });
    expect(await scene.ledger.numbersOf('order 1')).toEqual([1]);
  });
});
