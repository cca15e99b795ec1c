import type pg from 'pg';

import type { Order } from '../order-placed.js';

/** Where messages go: to a broker with confirms, to a handler in the worker's process that does nothing, or nowhere. */
export type Sink = 'rabbitmq' | 'kafka' | 'memory' | 'none';

/** What a worker has to do. */
export interface Job {
  readonly database: string;
  /** URL of the broker; empty without one. */
  readonly broker: string;
  readonly sink: Sink;
  /** Messages that wait, for those who do not read them from a table. */
  readonly count: number;
  readonly streams: number;
}

/** What a worker tells of itself. */
export interface Progress {
  /** So many more messages are through: confirmed, and settled where the contender settles them together. */
  through(count: number): void;
  /** This message is through; instead of `through` where the worker sees single ones. */
  saw(sequence: number): void;
}

export interface Worker {
  /** Resolves when the work has begun. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** The caller's transaction. */
export type Transaction = pg.ClientBase;

export interface Producer {
  /** In the caller's transaction. */
  store(tx: Transaction, orders: readonly Order[]): Promise<void>;
  close(): Promise<void>;
}

/** One way to get messages out of Postgres, with its best documented settings. */
export interface Contender {
  readonly name: string;
  /** Its settings, for the reader of the results. */
  readonly settings: string;
  /** Creates what it needs in an empty database. */
  prepare(pool: pg.Pool, database: string): Promise<void>;
  /** Empties its tables, before each run. */
  reset(pool: pg.Pool): Promise<void>;
  /** What would cost the others if it stayed between its runs. */
  leave?(pool: pg.Pool): Promise<void>;
  /** Its tables, vacuumed before a run. */
  readonly tables: readonly string[];
  /** How many messages are not done yet: one row, column `pending`. */
  readonly pending: string;
  producer(database: string): Promise<Producer>;
  worker(job: Job, progress: Progress): Promise<Worker>;
}
