import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

import type pg from 'pg';
import type { StoredTransactionalMessage, TransactionalLogger } from 'pg-transactional-outbox';
// A CommonJS package: its names are not to be seen by an import of single ones in every case.
import transactionalOutbox from 'pg-transactional-outbox';

import { OrderPlaced } from '../order-placed.js';
import { openPublisher } from './confirming-publisher.js';
import type { Contender, Job, Progress, Worker } from './contender.js';

const slot = 'bench_slot';
const publication = 'bench_publication';
const names = {
  outboxOrInbox: 'outbox' as const,
  schema: 'public',
  table: 'outbox',
  listenerRole: 'postgres',
  handlerRole: 'postgres',
  nextMessagesSchema: 'public',
  nextMessagesName: 'next_outbox_messages',
  publication,
  replicationSlot: slot,
};
const settings = {
  dbSchema: 'public',
  dbTable: 'outbox',
  // Each costs a transaction of its own for every message.
  enableMaxAttemptsProtection: false,
  enablePoisonousMessageProtection: false,
  nextMessagesFunctionName: names.nextMessagesName,
  nextMessagesBatchSize: 20,
  nextMessagesPollingIntervalInMs: 250,
  dbPublication: publication,
  dbReplicationSlot: slot,
};
const parallel = 20;

export interface TransactionalOutboxOptions {
  readonly listener: 'polling' | 'replication';
  readonly ordered?: boolean;
}

/** pg-transactional-outbox with twenty messages at a time, for which it has no batches. */
export function pgTransactionalOutbox({ listener, ordered = false }: TransactionalOutboxOptions): Contender {
  const replicated = listener === 'replication';
  return {
    name: `pg-transactional-outbox, ${listener}${ordered ? ', a segment per stream' : ''}`,
    settings: `${replicated ? `semaphore of ${parallel}` : `batch of 20, polling every 250 ms`}, pool of ${parallel}, no protections (each adds a transaction to a message)`,
    prepare: async (pool, database) => {
      const setup = { ...names, database: new URL(database).pathname.slice(1) };
      const { DatabaseSetup } = transactionalOutbox;
      await pool.query(DatabaseSetup.dropAndCreateTable(setup));
      if (replicated) {
        await pool.query(DatabaseSetup.setupReplicationCore(setup));
      } else {
        await pool.query(DatabaseSetup.createPollingFunction(setup));
        await pool.query(DatabaseSetup.setupPollingIndexes(setup));
      }
    },
    reset: async (pool) => {
      await pool.query('truncate outbox');
      if (!replicated) return;
      await dropSlot(pool);
      await pool.query(`select pg_create_logical_replication_slot('${slot}', 'pgoutput')`);
    },
    // An idle slot keeps the log of everybody.
    leave: dropSlot,
    tables: ['outbox'],
    pending: 'select count(*)::integer as pending from outbox where processed_at is null',
    producer: async () => {
      const store = transactionalOutbox.initializeMessageStorage(
        { outboxOrInbox: 'outbox', settings },
        transactionalOutbox.getDisabledLogger(),
      );
      return {
        store: async (tx, orders) => {
          for (const order of orders) {
            const message = {
              id: randomUUID(),
              aggregateType: 'order',
              aggregateId: order.order,
              messageType: OrderPlaced.type,
              segment: order.order,
              concurrency: ordered ? ('sequential' as const) : ('parallel' as const),
              payload: order,
            };
            await store(message, tx);
          }
        },
        close: async () => undefined,
      };
    },
    worker: (job, progress) => worker(job, progress, { listener, ordered }),
  };
}

async function dropSlot(pool: pg.Pool): Promise<void> {
  // The server notices after a while that a process has gone.
  for (let look = 0; look < 100; look += 1) {
    const { rows } = await pool.query<{ active: boolean }>(
      'select active from pg_replication_slots where slot_name = $1',
      [slot],
    );
    if (rows[0] === undefined) return;
    if (!rows[0].active) {
      await pool.query('select pg_drop_replication_slot($1)', [slot]);
      return;
    }
    await delay(100);
  }
  throw new Error('The replication slot stays in use.');
}

async function worker(
  { database, broker }: Job,
  progress: Progress,
  { listener, ordered }: Required<TransactionalOutboxOptions>,
): Promise<Worker> {
  const publisher = await openPublisher(broker);
  const handler = {
    handle: async ({ payload }: StoredTransactionalMessage) => {
      await publisher.publish(Buffer.from(JSON.stringify(payload)));
      progress.through(1);
    },
  };
  const logger: TransactionalLogger = {
    ...transactionalOutbox.getDisabledLogger(),
    error: (...what: unknown[]) => console.error('pg-transactional-outbox:', ...what),
  };
  const config = {
    outboxOrInbox: 'outbox' as const,
    dbListenerConfig: { connectionString: database, max: 4 },
    dbHandlerConfig: { connectionString: database, max: parallel },
    settings,
  };
  let stop = async (): Promise<void> => undefined;
  return {
    start: async () => {
      const [shutdown] =
        listener === 'polling'
          ? transactionalOutbox.initializePollingMessageListener(config, handler, logger)
          : transactionalOutbox.initializeReplicationMessageListener(config, handler, logger, {
              concurrencyStrategy: ordered
                ? transactionalOutbox.createReplicationSegmentMutexConcurrencyController()
                : transactionalOutbox.createReplicationSemaphoreConcurrencyController(parallel),
            });
      stop = shutdown;
    },
    stop: async () => {
      await stop();
      await publisher.close();
    },
  };
}
