import { fileURLToPath } from 'node:url';

import { runProgram, waitFor } from '@whizbang/test/fixtures';
import type pg from 'pg';

import type { Contender, Sink } from './contenders/contender.js';
import { type ContenderKey, contenderOf } from './contenders/index.js';
import { ordersPlaced } from './order-placed.js';
import type { QueueWitness } from './queue-witness.js';
import type { BenchServices } from './services.js';
import type { WorkerResult, WorkerTask } from './worker.process.js';

/** A contender with its database, and how much it is given. */
export interface Entry {
  readonly key: ContenderKey;
  readonly contender: Contender;
  readonly database: string;
  readonly pool: pg.Pool;
  readonly count: number;
  readonly streams: number;
}

export async function enter(services: BenchServices, key: ContenderKey, count: number, streams = 1000): Promise<Entry> {
  const contender = contenderOf(key);
  const database = await services.emptyDatabase();
  const pool = services.pool(database, 2);
  await contender.prepare(pool, database);
  return { key, contender, database, pool, count, streams };
}

/** Fills the table with what is to wait there, and lets Postgres come to rest. */
export async function fill({ contender, database, pool, count, streams }: Entry): Promise<void> {
  await contender.reset(pool);
  const producer = await contender.producer(database);
  const client = await pool.connect();
  try {
    await client.query('set synchronous_commit = off');
    // No more of a stream in one call than one, which some contenders ask for.
    const chunk = Math.min(1000, streams === 10 ? 1000 : streams);
    for (let index = 0; index < count; index += chunk) {
      await client.query('begin');
      await producer.store(client, ordersPlaced(Math.min(chunk, count - index), streams, index));
      await client.query('commit');
    }
    await client.query('reset synchronous_commit');
  } finally {
    client.release();
    await producer.close();
  }
  for (const table of contender.tables) await pool.query(`vacuum (analyze) ${table}`);
  await pool.query('checkpoint');
}

/** Something arrived that should not have, or did not. */
export interface Trouble {
  readonly lost: number;
  readonly doubled: number;
  readonly outOfOrder: number;
}

export interface DrainRun {
  readonly perSecond: number;
  readonly trouble: Trouble;
  readonly result: WorkerResult;
}

export interface DrainPlace {
  readonly sink: Sink;
  readonly broker?: string;
  readonly witness?: QueueWitness;
  /** Read every message that arrived instead of counting them. */
  readonly readAll?: boolean;
}

/** Fills, starts one worker process, and measures from the first messages that are through to the empty table. */
export async function drain(
  entry: Entry,
  { sink, broker = '', witness, readAll = false }: DrainPlace,
): Promise<DrainRun> {
  await witness?.purge();
  await fill(entry);
  const result = await work(entry, { ...entry, sink, broker, contender: entry.key });
  await entry.contender.leave?.(entry.pool);
  const seconds = (result.settledAt - result.first.at) / 1000;
  return {
    perSecond: (entry.count - result.first.count) / seconds,
    trouble: await troubleOf(entry, result, sink === 'rabbitmq' ? witness : undefined, readAll),
    result,
  };
}

async function work(
  entry: Entry,
  { contender, database, broker, sink, count, streams }: WorkerTask,
): Promise<WorkerResult> {
  const task: WorkerTask = { contender, database, broker, sink, count, streams };
  await using worker = startWorker(task);
  const said = await worker.waitForMessage(({ result }) => result !== undefined, {
    message: `${entry.contender.name} to be done`,
    timeoutMs: 180_000,
  });
  worker.kill('SIGTERM');
  await Promise.race([worker.exited, new Promise((resolve) => setTimeout(resolve, 10_000).unref())]);
  return said['result'] as WorkerResult;
}

export function startWorker(task: WorkerTask) {
  return runProgram(fileURLToPath(new URL('./worker.process.js', import.meta.url)), {
    BENCH_TASK: JSON.stringify(task),
  });
}

async function troubleOf(
  { count, streams }: Entry,
  result: WorkerResult,
  witness: QueueWitness | undefined,
  readAll: boolean,
): Promise<Trouble> {
  if (witness === undefined) {
    return { lost: result.missing, doubled: result.duplicates, outOfOrder: result.outOfOrder };
  }
  if (readAll) {
    const { missing, duplicates, outOfOrder } = await witness.read(count, streams);
    return { lost: missing, doubled: duplicates, outOfOrder };
  }
  // The broker's count lags a little behind its confirms.
  await waitFor(async () => (await witness.count()) >= count, { message: 'the count', timeoutMs: 3_000 }).catch(
    () => undefined,
  );
  const arrived = await witness.count();
  return { lost: Math.max(0, count - arrived), doubled: Math.max(0, arrived - count), outOfOrder: 0 };
}
