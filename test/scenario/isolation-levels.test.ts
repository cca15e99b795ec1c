import { randomUUID } from 'node:crypto';

import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { Ledger, insertHandled } from './ledger.js';
import { OrderChanged } from './orders.js';
import { KeptLog, inTransaction, migratedDatabase, testPool, testService } from './test-service.js';

describe.each(['repeatable read', 'serializable'])('where sessions begin at %s', (level) => {
  /** A database whose role has that default in it. */
  async function databaseAt(): Promise<string> {
    const { url, pool } = await migratedDatabase();
    await pool.query(`
      do $$ begin
        execute format('alter role %I in database %I set default_transaction_isolation = %L', current_user, current_database(), '${level}');
      end $$`);
    const { rows } = await testPool(url).query('show default_transaction_isolation');
    expect(rows).toEqual([{ default_transaction_isolation: level }]);
    return url;
  }

  test('a handler frees the followers that were marked while it ran', async () => {
    const url = await databaseAt();
    const pool = testPool(url);
    const numbers: number[] = [];
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const log = new KeptLog();
    const whizbang = await testService({ database: url, logger: log });
    whizbang.handle(OrderChanged, async ({ number }, { tx }) => {
      // From here on a transaction above READ COMMITTED would see nothing new.
      await tx.query('select 1');
      numbers.push(number);
      if (number === 1) await released;
    });
    await whizbang.start();
    await whizbang.publishNow(OrderChanged, { order: 'a', number: 1 });
    await waitFor(() => numbers.length === 1, { message: 'the handler of the head' });
    await inTransaction(pool, async (tx) => {
      await tx.query(
        `select whizbang.store_inbox_messages(array[$1::uuid], array[handler_name], array[message_type], array[destination],
                  array['{"order":"a","number":2}'], array['{}'], array[stream_id]) from whizbang.wh_inbox`,
        [randomUUID()],
      );
      // As the claim of another instance does that keeps finding rows behind the leases of others.
      await tx.query('select whizbang.claim_orphaned_inbox($1, 10, 1000000, 60, true)', [randomUUID()]);
      expect((await tx.query('select from whizbang.wh_inbox where blocked')).rowCount).toBe(1);
    });
    release();
    // At the moment at which the head is gone, its follower is free: nothing waits for the net of the next heartbeat.
    const { rows } = await waitFor(
      async () => {
        await turn();
        const found = await pool.query<{ blocked: number }>(
          `select (count(*) filter (where blocked))::integer as blocked from whizbang.wh_inbox
           having count(*) filter (where event_data ->> 'number' = '1') = 0`,
        );
        return found.rowCount === 1 && found;
      },
      { message: 'the completion of the head', intervalMs: 1 },
    );
    expect(rows).toEqual([{ blocked: 0 }]);
    await waitFor(() => numbers.length === 2, { message: 'the follower' });
    expect(log.about(/begin above READ COMMITTED/)).toHaveLength(1);
  });

  test('two instances, one on a pool of the user, and the user who publishes at that level get on with each other', async () => {
    const url = await databaseAt();
    const pool = testPool(url, 16);
    const ledger = await Ledger.create(pool);
    const log = new KeptLog();
    const [orders, each] = [20, 15];
    const services = [];
    for (const database of [url, testPool(url, 16)]) {
      const whizbang = await testService({
        database,
        broker: `memory:isolation-${level.replace(' ', '-')}`,
        logger: log,
        publisher: { batchSize: 7 },
        dispatcher: { batchSize: 7 },
      });
      whizbang.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
        await tx.query(insertHandled, [messageId, order, number, attempt, false]);
      });
      await whizbang.start();
      services.push(whizbang);
    }
    const [publisher] = services;
    for (let number = 1; number <= each; number += 1) {
      await inTransaction(pool, async (tx) => {
        expect((await tx.query('show transaction_isolation')).rows).toEqual([{ transaction_isolation: level }]);
        for (let order = 0; order < orders; order += 1) {
          await publisher?.publish(tx, OrderChanged, { order: `order-${order}`, number });
        }
      });
    }
    await waitFor(async () => (await ledger.count()) >= orders * each, {
      message: 'everything to be handled',
      timeoutMs: 30_000,
    });
    expect(await ledger.report()).toEqual({ handled: orders * each, twice: 0, outOfOrder: 0, rolledBack: 0 });
    const { rows } = await pool.query('select max(attempt) as most from handled');
    expect(rows).toEqual([{ most: 1 }]);
    expect(log.about(/could not serialize|cannot use the database|failed/i)).toEqual([]);
  });
});
