import { type Job as BossJob, PgBoss } from 'pg-boss';

import type { Order } from '../order-placed.js';
import { openPublisher } from './confirming-publisher.js';
import type { Contender, Job, Progress, Transaction, Worker } from './contender.js';

const queue = 'orders';

export interface PgBossOptions {
  /** First in, first out, for each order. */
  readonly ordered?: boolean;
  /** Jobs in one fetch. With `ordered`, at most the number of streams: a short fetch sends the worker to sleep. */
  readonly batch?: number;
  readonly workers?: number;
}

/** A job queue as an outbox: LISTEN/NOTIFY, large batches, two workers, no pause after a full batch. */
export function pgBoss({ ordered = false, batch = 1000, workers = 2 }: PgBossOptions = {}): Contender {
  return {
    name: `pg-boss${ordered ? ', key_strict_fifo' : ''}`,
    settings: `useListenNotify, batchSize ${batch}, localConcurrency ${workers}, burstWhenBatchFull, polling every 0.5 s${ordered ? ', policy key_strict_fifo' : ''}`,
    prepare: async (_, database) => {
      const boss = open(database);
      await boss.start();
      await boss.createQueue(queue, { policy: ordered ? 'key_strict_fifo' : 'standard', notify: true });
      await boss.stop({ graceful: false });
    },
    reset: async (pool) => void (await pool.query('truncate pgboss.job cascade')),
    tables: ['pgboss.job'],
    pending: `select count(*)::integer as pending from pgboss.job where name = '${queue}' and state < 'completed'`,
    producer: async (database) => {
      const boss = new PgBoss({
        connectionString: database,
        max: 2,
        supervise: false,
        schedule: false,
        migrate: false,
      });
      boss.on('error', report);
      await boss.start();
      const optionsOf = (order: Order) => (ordered ? { singletonKey: order.order } : {});
      return {
        store: async (tx, orders) => {
          const [only] = orders;
          if (orders.length === 1 && only !== undefined)
            await boss.send(queue, only, { ...optionsOf(only), db: on(tx) });
          else
            await boss.insert(
              queue,
              orders.map((data) => ({ data, ...optionsOf(data) })),
              { db: on(tx) },
            );
        },
        close: () => boss.stop({ graceful: false }),
      };
    },
    worker: (job, progress) => worker(job, progress, batch, workers),
  };
}

function open(connectionString: string): PgBoss {
  const boss = new PgBoss({ connectionString, max: 10, useListenNotify: true });
  boss.on('error', report);
  return boss;
}

function report(error: Error): void {
  console.error('pg-boss:', error.message);
}

function on(tx: Transaction) {
  return { executeSql: (text: string, values: unknown[] = []) => tx.query(text, values) };
}

async function worker(
  { database, broker, sink }: Job,
  progress: Progress,
  batchSize: number,
  localConcurrency: number,
): Promise<Worker> {
  const boss = open(database);
  await boss.start();
  const publisher = sink === 'rabbitmq' ? await openPublisher(broker) : undefined;
  const handle = async (jobs: BossJob<Order>[]): Promise<void> => {
    if (publisher === undefined) {
      for (const { data } of jobs) progress.saw(data.sequence);
      return;
    }
    await publisher.publishAll(jobs.map(({ data }) => Buffer.from(JSON.stringify(data))));
    progress.through(jobs.length);
  };
  return {
    start: async () => {
      const options = {
        batchSize,
        localConcurrency,
        pollingIntervalSeconds: 0.5,
        notifyPollingIntervalSeconds: 0.5,
        burstWhenBatchFull: true,
      };
      await boss.work<Order>(queue, options, handle);
    },
    stop: async () => {
      await boss.stop({ graceful: true, timeout: 5_000 });
      await publisher?.close();
    },
  };
}
