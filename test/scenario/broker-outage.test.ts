import type pg from 'pg';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { brokers } from './brokers/index.js';
import { type SeenMessage, outagePace } from './brokers/scenario-broker.js';
import { Ledger, countRows, insertHandled } from './ledger.js';
import { OrderChanged } from './orders.js';
import { SteadyProducers } from './steady-producers.js';
import { KeptLog, migratedDatabase, testService } from './test-service.js';

// Five minutes of absence, everything of ours that waits for a time shortened alike.
const outageMs = 300_000 / outagePace;
const batchSize = 50;
// The publisher has two batches with the broker.
const mostInFlight = 2 * batchSize;
const shortened = {
  leaseSeconds: 60 / outagePace,
  failures: {
    baseSeconds: 30 / outagePace,
    breaker: { initialCooldownMs: 3_000 / outagePace, maxCooldownMs: 300_000 / outagePace },
  },
  wakeups: { safetyPollMs: Math.round(10_000 / outagePace), fallbackPollMs: Math.round(250 / outagePace) },
};
// Some seconds where the machine is quiet; but each handler commits by itself, and this machine may be busy.
const drainMs = 60_000;

test.each(brokers)(
  '$name away for five minutes under load costs no attempt but of what was in flight, and the backlog drains',
  async (kind) => {
    const broker = await kind.fragile();
    const [orders, shipping] = [await migratedDatabase(), await migratedDatabase()];
    const ledger = await Ledger.create(shipping.pool);
    const witness = await broker.witness(OrderChanged.destination);
    const log = new KeptLog();
    const shared = { broker: broker.url, brokerOptions: broker.brokerOptions, logger: log, ...shortened };

    const consumer = await testService({ ...shared, service: 'shipping', database: shipping.url });
    consumer.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
      await tx.query(insertHandled, [messageId, order, number, attempt, false]);
    });
    await consumer.start();
    // Published rows are kept, so that the attempts of each can be read.
    const publisher = await testService({
      ...shared,
      service: 'orders',
      database: orders.url,
      publisher: { batchSize, retainCompleted: true },
    });
    await publisher.start();
    const producers = SteadyProducers.start(orders.pool, publisher, { producers: 4, pauseMs: 20 });
    await waitFor(async () => (await ledger.count()) > 100, { message: 'a steady flow', timeoutMs: 30_000 });

    await broker.stop();
    const awayAt = performance.now();
    await waitFor(async () => !publisher.brokerReady && (await leased(orders.pool)) === 0, {
      message: 'the publisher to have put everything down',
      timeoutMs: 10_000,
    });
    const producedAtCut = producers.committed;
    // At the most what was in flight is charged; everything else is as if it had not been tried.
    const inFlight = await tried(orders.pool);
    expect(inFlight.length).toBeLessThanOrEqual(mostInFlight);
    expect(inFlight.filter(({ attempts }) => attempts > 1)).toEqual([]);
    const charged: unknown[] = [];
    await waitFor(
      async () => {
        charged.push(...(await tried(orders.pool)).filter((row) => !isAmong(row, inFlight)));
        return performance.now() - awayAt > outageMs;
      },
      { message: 'the end of the outage', timeoutMs: outageMs + 10_000, intervalMs: 200 },
    );
    expect(charged).toEqual([]);
    // In this order: they go on while it is read.
    const { committed } = producers;
    const backlog = await waiting(orders.pool);
    expect(committed, 'the producers went on').toBeGreaterThan(producedAtCut + 100);
    expect(backlog, 'all that they committed waits').toBeGreaterThanOrEqual(committed - producedAtCut);

    await broker.start();
    const backAt = performance.now();
    // The load goes on a little, into the drain.
    await waitFor(async () => (await published(orders.pool)) > producedAtCut + 100, {
      message: 'publishing to begin again',
      timeoutMs: drainMs,
    });
    const beganMs = Math.round(performance.now() - backAt);
    await producers.stop();
    const left = () => drainMs - (performance.now() - backAt);
    await waitFor(async () => (await waiting(orders.pool)) === 0, {
      message: 'the backlog to drain',
      timeoutMs: left(),
    });
    const drainedMs = Math.round(performance.now() - backAt);
    await waitFor(async () => (await ledger.count()) >= producers.committed, {
      message: 'everything to be handled',
      timeoutMs: left(),
    });
    const handledMs = Math.round(performance.now() - backAt);
    process.stdout.write(
      `${backlog} messages waited at the return, ${inFlight.length} were charged; published again after ${beganMs} ms, all after ${drainedMs} ms, handled after ${handledMs} ms\n`,
    );

    const messages = producers.committed;
    expect(await ledger.report()).toEqual({ handled: messages, twice: 0, outOfOrder: 0, rolledBack: 0 });
    expect(await maxAttempt(shipping.pool, 'handled', 'attempt'), 'attempts that handlers saw').toBe(1);
    // One more for what was in flight, and none for anything else.
    const retried = await tried(orders.pool, 'attempts > 1');
    expect(retried.filter((row) => !inFlight.some(({ message_id }) => message_id === row.message_id))).toEqual([]);
    expect(await maxAttempt(orders.pool, 'whizbang.wh_outbox', 'attempts')).toBeLessThanOrEqual(2);
    expect((await countRows(orders.pool)).deadLetters + (await countRows(shipping.pool)).deadLetters).toBe(0);
    expectOrder(await witness.seen(messages), messages);
  },
  240_000,
);

interface Tried {
  readonly message_id: string;
  readonly attempts: number;
}

async function tried(pool: pg.Pool, where = 'processed_at is null and attempts > 0'): Promise<Tried[]> {
  const { rows } = await pool.query<Tried>(`select message_id, attempts from whizbang.wh_outbox where ${where}`);
  return rows;
}

function isAmong(row: Tried, others: readonly Tried[]): boolean {
  return others.some(({ message_id, attempts }) => message_id === row.message_id && attempts === row.attempts);
}

async function count(pool: pg.Pool, where: string): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::integer as count from whizbang.wh_outbox where ${where}`,
  );
  return rows[0]?.count ?? -1;
}

const leased = (pool: pg.Pool) => count(pool, 'instance_id is not null');
const waiting = (pool: pg.Pool) => count(pool, 'processed_at is null');
const published = (pool: pg.Pool) => count(pool, 'processed_at is not null');

async function maxAttempt(pool: pg.Pool, table: string, column: string): Promise<number> {
  const { rows } = await pool.query<{ most: number }>(`select max(${column}) as most from ${table}`);
  return rows[0]?.most ?? 0;
}

/** The broker took every message, in the order of its stream, and none twice but of what it had when it was cut off. */
function expectOrder(seen: readonly Pick<SeenMessage, 'messageId' | 'body'>[], messages: number): void {
  const ids = new Set<string>();
  const last = new Map<string, number>();
  const wrong: string[] = [];
  for (const { messageId, body } of seen) {
    if (ids.has(messageId)) continue;
    ids.add(messageId);
    const { order, number } = JSON.parse(body) as { order: string; number: number };
    if (number !== (last.get(order) ?? 0) + 1) wrong.push(`${order}: ${number} after ${last.get(order) ?? 0}`);
    last.set(order, number);
  }
  expect(wrong).toEqual([]);
  expect(ids.size).toBe(messages);
  expect(seen.length - messages).toBeLessThanOrEqual(mostInFlight);
}
