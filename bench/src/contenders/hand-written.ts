import { setTimeout as delay } from 'node:timers/promises';

import pg from 'pg';

import type { Contender, Job, Progress, Worker } from './contender.js';
import { openSink } from './sink.js';

export interface HandWrittenOptions {
  readonly batch: number;
  /** What becomes of a row that is confirmed. */
  readonly finish: 'delete' | 'update';
  /** A trigger that notifies, and a worker that listens. Default: polling alone. */
  readonly notify?: boolean;
  /** Milliseconds between looks when there was nothing. */
  readonly pollMs?: number;
}

const tables = `
create table outbox (
  id bigint generated always as identity primary key,
  aggregate_id text not null,
  type text not null,
  payload json not null,
  created_at timestamptz not null default now(),
  processed_at timestamptz
);
create index outbox_pending on outbox (id) where processed_at is null;
create function notify_outbox() returns trigger language plpgsql as $$ begin perform pg_notify('outbox', ''); return null; end $$;`;

/**
 * The outbox that a careful team writes: one transaction locks a batch with SKIP LOCKED, sends all of it, waits for all
 * confirms, and deletes or stamps the rows. The body stays the text it is.
 */
export function handWritten({ batch, finish, notify = false, pollMs = 250 }: HandWrittenOptions): Contender {
  return {
    name: `hand-written, ${finish} ${batch}${notify ? ', notify' : ''}`,
    settings: `FOR UPDATE SKIP LOCKED, ${batch} rows, one transaction around the confirms, ${finish}; ${notify ? 'LISTEN and ' : ''}polling every ${pollMs} ms when idle`,
    prepare: async (pool) => {
      await pool.query(tables);
      if (notify)
        await pool.query(
          'create trigger notify_outbox after insert on outbox for each statement execute function notify_outbox()',
        );
    },
    reset: async (pool) => void (await pool.query('truncate outbox')),
    tables: ['outbox'],
    pending: 'select count(*)::integer as pending from outbox where processed_at is null',
    producer: async () => ({
      store: async (tx, orders) => {
        const [only] = orders;
        if (orders.length === 1 && only !== undefined) {
          const text = 'insert into outbox (aggregate_id, type, payload) values ($1, $2, $3)';
          await tx.query({
            name: 'store',
            text,
            values: [only.order, 'orders.order-placed', JSON.stringify(only)],
          });
          return;
        }
        await tx.query({
          name: 'store many',
          text: `insert into outbox (aggregate_id, type, payload)
                 select k, 'orders.order-placed', p::json from unnest($1::text[], $2::text[]) as m (k, p)`,
          values: [orders.map(({ order }) => order), orders.map((order) => JSON.stringify(order))],
        });
      },
      close: async () => undefined,
    }),
    worker: (job, progress) => worker(job, progress, { batch, finish, notify, pollMs }),
  };
}

async function worker(job: Job, progress: Progress, options: Required<HandWrittenOptions>): Promise<Worker> {
  const client = new pg.Client({ connectionString: job.database });
  const listener = new pg.Client({ connectionString: job.database });
  await Promise.all([client.connect(), listener.connect()]);
  const sink = await openSink(job, progress);
  const stopped = new AbortController();
  let ring = (): void => undefined;
  listener.on('notification', () => ring());
  const select = {
    name: 'select',
    text: `select id, payload::text as body from outbox where processed_at is null order by id limit $1 for update skip locked`,
  };
  const finish =
    options.finish === 'delete'
      ? { name: 'finish', text: 'delete from outbox where id = any($1::bigint[])' }
      : { name: 'finish', text: 'update outbox set processed_at = now() where id = any($1::bigint[])' };
  const step = async (): Promise<number> => {
    await client.query('begin');
    const { rows } = await client.query<{ id: string; body: string }>({ ...select, values: [options.batch] });
    if (rows.length > 0) {
      await sink.send(rows.map(({ body }) => body));
      await client.query({ ...finish, values: [rows.map(({ id }) => id)] });
    }
    await client.query('commit');
    sink.settled(rows.length);
    return rows.length;
  };
  const run = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const rung = new Promise<void>((resolve) => {
        ring = resolve;
      });
      if ((await step()) < options.batch) await Promise.race([delay(options.pollMs), rung]);
    }
  };
  let running = Promise.resolve();
  return {
    start: async () => {
      if (options.notify) await listener.query('listen outbox');
      running = run();
    },
    stop: async () => {
      stopped.abort();
      await running;
      await Promise.all([client.end(), listener.end(), sink.close()]);
    },
  };
}
