import { fileURLToPath } from 'node:url';

import { runProgram } from '@whizbang/test/fixtures';

import { type Entry, startWorker } from './drain-run.js';
import type { ProducerResult, ProducerTask } from './producer.process.js';

const placed =
  'create table if not exists placed (id bigint generated always as identity primary key, customer text, amount integer)';

export interface EnqueueLoad {
  readonly connections: number;
  readonly batch: number;
  readonly seconds: number;
  /** Of the broker that a worker publishes to meanwhile; without it nobody publishes. */
  readonly broker?: string;
}

/** Messages a second that connections of a process of their own store, each transaction with a row of the business. */
export async function enqueue(entry: Entry, { broker, ...load }: EnqueueLoad): Promise<number> {
  const { contender, pool, key, database } = entry;
  await pool.query(placed);
  await pool.query('truncate placed');
  await contender.reset(pool);
  await pool.query('checkpoint');
  const job = { contender: key, database, count: 0, streams: 1000, sink: 'rabbitmq' as const };
  await using worker = broker === undefined ? undefined : startWorker({ ...job, broker });
  await worker?.waitForMessage(({ started }) => started === true, { message: 'the worker', timeoutMs: 120_000 });
  const { perSecond, stored } = await produce({ contender: key, database, ...load });
  const { rows } = await pool.query<{ placed: number }>('select count(*)::integer as placed from placed');
  if ((rows[0]?.placed ?? 0) * load.batch !== stored) throw new Error(`${contender.name} stored something else`);
  if (worker !== undefined) {
    worker.kill();
    await worker.exited;
  } else {
    await complete(entry, stored);
  }
  await contender.leave?.(pool);
  return perSecond;
}

/** Without a worker all that was stored is still there. */
async function complete({ contender, pool }: Entry, stored: number): Promise<void> {
  const { rows } = await pool.query<{ pending: number }>(contender.pending);
  if (rows[0]?.pending !== stored) {
    throw new Error(`${contender.name} has ${rows[0]?.pending} of ${stored} messages`);
  }
}

async function produce(task: ProducerTask): Promise<ProducerResult> {
  const file = fileURLToPath(new URL('./producer.process.js', import.meta.url));
  await using producer = runProgram(file, { BENCH_TASK: JSON.stringify(task) });
  const said = await producer.waitForMessage(({ result }) => result !== undefined, {
    message: 'the end of the load',
    timeoutMs: task.seconds * 1000 + 60_000,
  });
  return said['result'] as ProducerResult;
}
