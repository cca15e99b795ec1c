import pg from 'pg';

import { ordersPlaced } from '../order-placed.js';
import { openPublisher } from './confirming-publisher.js';
import type { Contender, Job, Progress, Worker } from './contender.js';
import { handWritten } from './hand-written.js';
import { openKafkaProducer } from './kafka-producer.js';

const window = 1000;
const noTable = {
  prepare: async () => undefined,
  reset: async () => undefined,
  tables: [],
  pending: 'select 0 as pending',
  producer: async () => ({ store: async () => undefined, close: async () => undefined }),
};

/** What the broker's own client does with the same bodies and no database. */
export function rawConfirms(): Contender {
  return {
    ...noTable,
    name: 'amqplib alone',
    settings: `persistent, confirms, ${window} in flight, one channel`,
    worker: async ({ broker, count, streams }, progress) => {
      const publisher = await openPublisher(broker);
      const bodies = ordersPlaced(count, streams).map((order) => Buffer.from(JSON.stringify(order)));
      return begun(async () => {
        let next = 0;
        const lane = async (): Promise<void> => {
          for (let body = bodies[next++]; body !== undefined; body = bodies[next++]) {
            await publisher.publish(body);
            progress.through(1);
          }
        };
        await Promise.all(Array.from({ length: window }, lane));
      }, publisher.close);
    },
  };
}

/** What kafkajs does with the same bodies and no database. */
export function rawKafka(batch = 500): Contender {
  return {
    ...noTable,
    name: 'kafkajs alone',
    settings: `acks all, ${batch} a send, one send at a time`,
    worker: async ({ broker, count, streams }, progress) => {
      const producer = await openKafkaProducer(broker);
      const bodies = ordersPlaced(count, streams).map((order) => JSON.stringify(order));
      return begun(async () => {
        for (let index = 0; index < count; index += batch) {
          const some = bodies.slice(index, index + batch);
          await producer.send(some);
          progress.through(some.length);
        }
      }, producer.close);
    },
  };
}

// Half-empty pages, and no index that a lease would change: the update stays on its page.
const leased = `
create table outbox (
  id bigint generated always as identity primary key,
  aggregate_id text not null,
  type text not null,
  payload json not null,
  created_at timestamptz not null default now(),
  processed_at timestamptz,
  holder uuid,
  leased_until timestamptz,
  attempts integer not null default 0
) with (fillfactor = 45, autovacuum_vacuum_cost_delay = 0);
create index outbox_pending on outbox (id) where processed_at is null;`;

/** What Postgres does with the same rows and no broker: a lease, then a delete, each with its own commit. */
export function rawClaim(batch: number): Contender {
  return {
    ...handWritten({ batch, finish: 'delete' }),
    name: `claim, update and delete alone, ${batch}`,
    settings: `UPDATE … RETURNING of ${batch} rows (SKIP LOCKED) and DELETE by ids, autocommit, prepared, HOT`,
    prepare: async (pool) => void (await pool.query(leased)),
    worker: (job, progress) => claimer(job, progress, batch),
  };
}

async function claimer({ database }: Job, progress: Progress, batch: number): Promise<Worker> {
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  const claim = {
    name: 'claim',
    text: `with due as (select id from outbox where processed_at is null and (leased_until is null or leased_until < now())
                        order by id limit $1 for update skip locked)
           update outbox o set holder = '00000000-0000-4000-8000-000000000000', leased_until = now() + interval '1 minute',
                               attempts = attempts + 1
           from due where o.id = due.id returning o.id, o.payload::text as body`,
    values: [batch],
  };
  return begun(
    async () => {
      for (;;) {
        const { rows } = await client.query<{ id: string }>(claim);
        if (rows.length === 0) return;
        const values = [rows.map(({ id }) => id)];
        await client.query({ name: 'delete', text: 'delete from outbox where id = any($1::bigint[])', values });
        progress.through(rows.length);
      }
    },
    () => client.end(),
  );
}

/** Work that ends by itself. */
function begun(work: () => Promise<void>, close: () => Promise<void>): Worker {
  let running = Promise.resolve();
  return {
    start: async () => {
      running = work();
    },
    stop: async () => {
      await running;
      await close();
    },
  };
}
