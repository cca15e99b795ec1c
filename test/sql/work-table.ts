import { randomUUID } from 'node:crypto';

import { migrate } from '@whizbang/core';
import pg from 'pg';

import { testDatabase } from '../fixtures/test-services.js';

/** What runs a statement: a pool, or a client that is inside a transaction. */
export type Connection = pg.Pool | pg.ClientBase;

export interface ClaimedRow {
  readonly messageId: string;
  readonly label: string;
  readonly attempts: number;
  readonly sequence: bigint;
  readonly candidates: number;
  readonly eventData: string;
}

/** What one row looks like now. */
export interface RowState {
  readonly message_id: string;
  readonly label: string;
  readonly attempts: number;
  readonly status: number;
  readonly blocked: boolean;
  readonly instance_id: string | null;
  readonly leased: boolean;
  readonly scheduled_in_ms: number | null;
  readonly error: string | null;
  readonly failure_reason: number;
}

export interface ClaimOptions {
  readonly limit?: number;
  readonly maxBytes?: number;
  readonly leaseSeconds?: number;
  readonly blockLeased?: boolean;
}

type Try = Pick<ClaimedRow, 'messageId' | 'attempts'>;

/** The UUID that stands for a stream's letter. */
export function streamOf(letter: string): string {
  return `00000000-0000-4000-8000-${Buffer.from(letter).toString('hex').padStart(12, '0')}`;
}

/**
 * `wh_outbox` or `wh_inbox` through its public functions, so that one test serves both. A row is known by its label, which
 * is its message type: `a1` is a row of stream `a`, `-1` a row without a stream.
 */
export class WorkTable {
  constructor(
    readonly name: 'outbox' | 'inbox',
    readonly pool: pg.Pool,
    readonly prefix = 'whizbang.',
  ) {}

  get table(): string {
    return `${this.prefix}wh_${this.name}`;
  }

  /** Stores rows in their order, in one call. */
  async store(labels: readonly string[], options: { on?: Connection; body?: string } = {}): Promise<string[]> {
    const on = options.on ?? this.pool;
    const ids = labels.map(() => randomUUID());
    const all = <Value>(value: Value) => labels.map(() => value);
    const streams = labels.map((label) => (label.startsWith('-') ? null : streamOf(label.replace(/\d+$/, ''))));
    const bodies = all(options.body ?? '{}');
    await (this.name === 'outbox'
      ? on.query(
          `select ${this.prefix}store_outbox_messages($1::uuid[], $2, $3, $4, $5, $6::uuid[], $7::timestamptz[])`,
          [ids, all('orders'), labels, bodies, all('{}'), streams, all(null)],
        )
      : on.query(`select ${this.prefix}store_inbox_messages($1::uuid[], $2, $3, $4, $5, $6, $7::uuid[])`, [
          ids,
          labels,
          labels,
          all('orders'),
          bodies,
          all('{}'),
          streams,
        ]));
    return ids;
  }

  async claim(holder: string, options: ClaimOptions & { on?: Connection } = {}): Promise<ClaimedRow[]> {
    const { limit = 100, maxBytes = 1_000_000, leaseSeconds = 60, blockLeased = false, on = this.pool } = options;
    const { rows } = await on.query<{
      message_id: string;
      message_type: string;
      attempts: number;
      sequence: string;
      candidates: number;
      event_data: string;
    }>(`select * from ${this.prefix}claim_orphaned_${this.name}($1, $2, $3, $4, $5)`, [
      holder,
      limit,
      maxBytes,
      leaseSeconds,
      blockLeased,
    ]);
    return rows.map((row) => ({
      messageId: row.message_id,
      label: row.message_type,
      attempts: row.attempts,
      sequence: BigInt(row.sequence),
      candidates: row.candidates,
      eventData: row.event_data,
    }));
  }

  /** The labels of a claim. */
  async claimLabels(holder: string, options: ClaimOptions & { on?: Connection } = {}): Promise<string[]> {
    return (await this.claim(holder, options)).map((row) => row.label);
  }

  /** Every settling call returns the ids that the holder no longer held. */
  async complete(holder: string, tries: readonly Try[], options: { retain?: boolean; on?: Connection } = {}) {
    const name = this.name === 'outbox' ? 'complete_outbox_published' : 'complete_inbox_handled';
    return this.#settle(options.on, name, holder, tries, [options.retain ?? false]);
  }

  async fail(
    holder: string,
    tries: readonly Try[],
    options: { on?: Connection; error?: string; reason?: number; permanent?: boolean } = {},
  ) {
    const failures = tries.map((one) => ({
      messageId: one.messageId,
      attempt: one.attempts,
      completedStatus: 1,
      error: options.error ?? 'it broke',
      reason: options.reason ?? 2,
      permanent: options.permanent ?? false,
    }));
    const settings = JSON.stringify({ maxAttempts: null, generation: 'test' });
    const { rows } = await (options.on ?? this.pool).query<{ message_id: string; outcome: string }>(
      `select message_id, outcome from ${this.prefix}process_${this.name}_failures($1, $2, $3)`,
      [holder, JSON.stringify(failures), settings],
    );
    return rows.filter((row) => row.outcome === 'stale').map((row) => row.message_id);
  }

  async release(holder: string, tries: readonly Try[], options: { on?: Connection } = {}) {
    return this.#settle(options.on, `release_${this.name}`, holder, tries, []);
  }

  async renew(holder: string, tries: readonly Try[], leaseSeconds = 60, on?: Connection) {
    return this.#settle(on, `renew_${this.name}_leases`, holder, tries, [leaseSeconds]);
  }

  async unblockStranded(limit?: number): Promise<number> {
    return (await this.unblockStrandedFrom(null, limit)).freed;
  }

  /** As a heartbeat does: some streams, and where the next look goes on. */
  async unblockStrandedFrom(after: string | null, limit = 1000): Promise<{ freed: number; next_after: string | null }> {
    const { rows } = await this.pool.query<{ freed: number; next_after: string | null }>(
      `select * from ${this.prefix}unblock_stranded_${this.name}_streams($1, $2)`,
      [limit, after],
    );
    return rows[0] ?? { freed: -1, next_after: null };
  }

  /** By hand, as an operator would; `where` is about the rows' labels. */
  async set(assignments: string, labels: readonly string[], on: Connection = this.pool): Promise<void> {
    await on.query(`update ${this.table} set ${assignments} where message_type = any ($1)`, [labels]);
  }

  async remove(labels: readonly string[], on: Connection = this.pool): Promise<void> {
    await on.query(`delete from ${this.table} where message_type = any ($1)`, [labels]);
  }

  async states(on: Connection = this.pool): Promise<RowState[]> {
    const { rows } = await on.query<RowState>(
      `select message_id, message_type as label, attempts, status, blocked, instance_id, lease_expiry > clock_timestamp() as leased,
              extract(epoch from scheduled_for - clock_timestamp())::float8 * 1000 as scheduled_in_ms, error, failure_reason
       from ${this.table} order by sequence`,
    );
    return rows;
  }

  async state(label: string, on: Connection = this.pool): Promise<RowState> {
    const found = (await this.states(on)).find((row) => row.label === label);
    if (found === undefined) throw new Error(`There is no row '${label}' in ${this.table}`);
    return found;
  }

  async blockedLabels(): Promise<string[]> {
    return (await this.states()).filter((row) => row.blocked).map((row) => row.label);
  }

  async empty(): Promise<void> {
    await this.pool.query(`delete from ${this.table}`);
  }

  async #settle(
    on: Connection | undefined,
    name: string,
    holder: string,
    tries: readonly Try[],
    more: readonly unknown[],
  ): Promise<string[]> {
    const values = [holder, tries.map((row) => row.messageId), tries.map((row) => row.attempts), ...more];
    const places = values.map((_, index) => `$${index + 1}`).join(', ');
    const { rows } = await (on ?? this.pool).query<{ stale: string[] | null }>(
      `select ${this.prefix}${name}(${places}) as stale`,
      values,
    );
    return rows[0]?.stale ?? [];
  }
}

export const workTables = ['outbox', 'inbox'] as const;

/** A database of its own with Whizbang's schema in it, and a pool that is closed with it. */
export async function migratedDatabase(
  schema?: string,
): Promise<{ pool: pg.Pool; url: string; close(): Promise<void> }> {
  const { url } = await testDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 20 });
  // The database is dropped at the end, which ends sessions that are still in it.
  pool.on('error', () => undefined);
  await migrate({ database: pool, ...(schema === undefined ? {} : { schema }) });
  return { pool, url, close: () => pool.end() };
}

/** Runs `work` in a transaction that is rolled back when it throws, and committed otherwise. */
export async function inTransaction<Result>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<Result>,
  isolation = 'read committed',
): Promise<Result> {
  const client = await pool.connect();
  try {
    await client.query(`begin isolation level ${isolation}`);
    const result = await work(client);
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback');
    throw error;
  } finally {
    client.release();
  }
}
