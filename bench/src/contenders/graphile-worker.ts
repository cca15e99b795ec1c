import { Logger, run, runMigrations } from 'graphile-worker';
import pg from 'pg';

import type { Order } from '../order-placed.js';
import { openPublisher } from './confirming-publisher.js';
import type { Contender, Job, Progress, Worker } from './contender.js';

const poolSize = 10;
const logger = new Logger(() => (level, message) => {
  if (String(level) === 'error') console.error('graphile-worker:', message);
});

/** A job queue as an outbox: local queue and batched completion, which its page on performance recommends. */
export function graphileWorker({ ordered = false }: { readonly ordered?: boolean } = {}): Contender {
  return {
    name: `graphile-worker${ordered ? ', a queue per stream' : ''}`,
    // A local queue takes one job of each named queue at a time, and then waits: a few messages a second.
    settings: `${ordered ? 'no local queue' : 'localQueue.size 500'}, completeJobBatchDelay 0, concurrentJobs 24 (100 with a publishing task), maxPoolSize ${ordered ? 24 : poolSize}`,
    prepare: (pool) => runMigrations({ pgPool: pool, logger }),
    reset: async (pool) =>
      void (await pool.query(
        'truncate graphile_worker._private_jobs, graphile_worker._private_job_queues restart identity',
      )),
    tables: ['graphile_worker._private_jobs', 'graphile_worker._private_job_queues'],
    pending: 'select count(*)::integer as pending from graphile_worker._private_jobs where run_at <= now()',
    // The SQL that its own addJob and addJobs run, on the caller's client.
    producer: async () => ({
      store: async (tx, orders) => {
        const [only] = orders;
        if (orders.length === 1 && only !== undefined) {
          await tx.query({
            name: 'add job',
            text: 'select graphile_worker.add_job(identifier => $1::text, payload => $2::json, queue_name => $3::text)',
            values: ['order', JSON.stringify(only), ordered ? only.order : null],
          });
          return;
        }
        const jobs = orders.map((order) => ({
          identifier: 'order',
          payload: order,
          ...(ordered ? { queue_name: order.order } : {}),
        }));
        await tx.query({
          name: 'add jobs',
          text: `select count(*) from graphile_worker.add_jobs(
                   array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json)), false)`,
          values: [JSON.stringify(jobs)],
        });
      },
      close: async () => undefined,
    }),
    worker: (job, progress) => worker(job, progress, ordered),
  };
}

async function worker({ database, broker, sink }: Job, progress: Progress, ordered: boolean): Promise<Worker> {
  const maxPoolSize = ordered ? 24 : poolSize;
  const publisher = sink === 'rabbitmq' ? await openPublisher(broker) : undefined;
  const pgPool = new pg.Pool({ connectionString: database, max: maxPoolSize });
  // It asks for both.
  pgPool.on('error', () => undefined);
  pgPool.on('connect', (client) => client.on('error', () => undefined));
  const concurrentJobs = publisher === undefined ? 24 : 100;
  const order = async (payload: unknown): Promise<void> => {
    if (publisher !== undefined) {
      await publisher.publish(Buffer.from(JSON.stringify(payload)));
      progress.through(1);
    } else {
      progress.saw((payload as Order).sequence);
    }
  };
  let stop = async (): Promise<void> => undefined;
  return {
    start: async () => {
      const runner = await run({
        pgPool,
        logger,
        noHandleSignals: true,
        crontab: '',
        preset: {
          worker: {
            concurrentJobs,
            maxPoolSize,
            ...(ordered ? {} : { localQueue: { size: 500 } }),
            completeJobBatchDelay: 0,
            failJobBatchDelay: 0,
          },
        },
        taskList: { order },
      });
      stop = () => runner.stop();
    },
    stop: async () => {
      await stop();
      await pgPool.end();
      await publisher?.close();
    },
  };
}
