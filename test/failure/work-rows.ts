import { randomUUID } from 'node:crypto';

import { migrate } from '@whizbang/core';
import pg from 'pg';

import { testDatabase } from '../fixtures/test-services.js';

export const tables = ['outbox', 'inbox'] as const;
export type TableName = (typeof tables)[number];

export interface Claimed {
  readonly messageId: string;
  readonly label: string;
  readonly attempts: number;
  readonly parked: boolean;
  readonly suspect: boolean;
}

/** What a failure report says about one message; the names are those of the JSON that SQL takes. */
export interface Failure {
  readonly reason?: number;
  readonly error?: string | null;
  readonly completedStatus?: number;
  readonly delayMs?: number;
  readonly permanent?: boolean;
  /** 0 block, 1 continue, 2 park. */
  readonly policy?: number;
  readonly untried?: boolean;
  readonly fingerprint?: string;
}

export interface Row {
  readonly message_id: string;
  readonly label: string;
  readonly attempts: number;
  readonly status: number;
  readonly error: string | null;
  readonly failure_reason: number;
  readonly instance_id: string | null;
  readonly lease_expiry: Date | null;
  readonly scheduled_for: string | null;
  readonly blocked: boolean;
}

export type DeadRow = Readonly<Record<string, unknown>> & {
  readonly dead_letter_id: string;
  readonly source_id: string;
  readonly message_type: string;
  readonly failure_reason: number;
  readonly last_failure_reason: number | null;
  readonly error_text: string | null;
  readonly attempts_when_dlq: number;
  readonly status: number;
  readonly recovery_status: number;
  readonly recovery_attempts: number;
  readonly granted_attempts: number;
  readonly parks_stream: boolean;
};

type Try = Pick<Claimed, 'messageId' | 'attempts'>;

/** The UUID of a stream's letter: row `a1` is in stream `a`, row `-1` in none. */
export function streamOf(letter: string): string {
  return `00000000-0000-4000-8000-${Buffer.from(letter).toString('hex').padStart(12, '0')}`;
}

/** `wh_outbox` or `wh_inbox` through the SQL that the workers call, so that one test serves both. */
export class WorkRows {
  constructor(
    readonly name: TableName,
    readonly pool: pg.Pool,
  ) {}

  get table(): string {
    return `whizbang.wh_${this.name}`;
  }

  async store(...labels: string[]): Promise<string[]> {
    const ids = labels.map(() => randomUUID());
    const all = <Value>(value: Value) => labels.map(() => value);
    const streams = labels.map((label) => (label.startsWith('-') ? null : streamOf(label.replace(/\d+$/, ''))));
    await (this.name === 'outbox'
      ? this.pool.query(
          'select whizbang.store_outbox_messages($1::uuid[], $2, $3, $4, $5, $6::uuid[], $7::timestamptz[])',
          [ids, all('orders'), labels, all('{"n":1}'), all('{}'), streams, all(null)],
        )
      : this.pool.query('select whizbang.store_inbox_messages($1::uuid[], $2, $3, $4, $5, $6, $7::uuid[])', [
          ids,
          labels.map((label) => `shipping/${label}`),
          labels,
          all('orders'),
          all('{"n":1}'),
          all('{}'),
          streams,
        ]));
    return ids;
  }

  async claim(holder: string, leaseSeconds = 60, limit = 100): Promise<Claimed[]> {
    const { rows } = await this.pool.query<{
      message_id: string;
      message_type: string;
      attempts: number;
      parked: boolean;
      suspect: boolean;
    }>(`select * from whizbang.claim_orphaned_${this.name}($1, $2, 1000000, $3)`, [holder, limit, leaseSeconds]);
    return rows.map(({ message_id, message_type, ...row }) => ({ ...row, messageId: message_id, label: message_type }));
  }

  async claimOne(holder: string): Promise<Claimed> {
    const [row, ...others] = await this.claim(holder);
    if (row === undefined || others.length > 0) throw new Error(`Claimed ${others.length + (row ? 1 : 0)} rows of one`);
    return row;
  }

  /** Returns what became of each: `retry`, `dead` or `stale`. */
  async fail(
    holder: string,
    tries: readonly Try[],
    failure: Failure = {},
    settings: Readonly<Record<string, unknown>> = {},
  ): Promise<string[]> {
    const failures = tries.map(({ messageId, attempts }) => ({
      messageId,
      attempt: attempts,
      completedStatus: 1,
      error: 'it broke',
      reason: 2,
      policy: 0,
      ...failure,
    }));
    const { rows } = await this.pool.query<{ message_id: string; outcome: string }>(
      'select * from whizbang.report_failures($1, $2, $3, $4)',
      [this.name, holder, JSON.stringify(failures), JSON.stringify(settings)],
    );
    return tries.map(({ messageId }) => rows.find((row) => row.message_id === messageId)?.outcome ?? 'unanswered');
  }

  async complete(holder: string, tries: readonly Try[]): Promise<string[]> {
    const name = this.name === 'outbox' ? 'complete_outbox_published' : 'complete_inbox_handled';
    return this.#settle(`${name}($1, $2, $3, false)`, holder, tries);
  }

  async release(holder: string, tries: readonly Try[]): Promise<string[]> {
    return this.#settle(`release_${this.name}($1, $2, $3)`, holder, tries);
  }

  async renew(holder: string, tries: readonly Try[]): Promise<string[]> {
    return this.#settle(`renew_${this.name}_leases($1, $2, $3, 60)`, holder, tries);
  }

  /** Returns the ids that were moved. */
  async move(holder: string | null, tries: readonly Try[], more: Readonly<Record<string, unknown>> = {}) {
    const messages = tries.map(({ messageId, attempts }) => ({
      messageId,
      attempt: attempts,
      reason: 5,
      lastReason: 2,
      error: 'given up',
      ...more,
    }));
    const { rows } = await this.pool.query<{ moved: string[] | null }>(
      'select whizbang.move_to_dead_letters($1, $2, $3, $4) as moved',
      [`wh_${this.name}`, holder, JSON.stringify(messages), 'build-1'],
    );
    return rows[0]?.moved ?? [];
  }

  async rows(): Promise<Row[]> {
    const { rows } = await this.pool.query<Row>(
      `select message_id, message_type as label, attempts, status, error, failure_reason, instance_id, lease_expiry,
              scheduled_for::text as scheduled_for, blocked
       from ${this.table} order by sequence`,
    );
    return rows;
  }

  async row(label: string): Promise<Row> {
    const found = (await this.rows()).find((row) => row.label === label);
    if (found === undefined) throw new Error(`There is no row '${label}' in ${this.table}`);
    return found;
  }

  /** By hand, as an operator would. */
  async set(assignments: string, ...labels: string[]): Promise<void> {
    await this.pool.query(`update ${this.table} set ${assignments} where message_type = any ($1)`, [labels]);
  }

  async dead(): Promise<DeadRow[]> {
    const { rows } = await this.pool.query<DeadRow>(
      `select * from whizbang.wh_dead_letters where source_table = $1 order by source_sequence`,
      [`wh_${this.name}`],
    );
    return rows;
  }

  async empty(): Promise<void> {
    await this.pool.query(`delete from ${this.table}`);
    await this.pool.query('delete from whizbang.wh_dead_letters');
  }

  async #settle(call: string, holder: string, tries: readonly Try[]): Promise<string[]> {
    const { rows } = await this.pool.query<{ stale: string[] | null }>(`select whizbang.${call} as stale`, [
      holder,
      tries.map((row) => row.messageId),
      tries.map((row) => row.attempts),
    ]);
    return rows[0]?.stale ?? [];
  }
}

/** A database of its own with Whizbang's schema in it. */
export async function failureDatabase(): Promise<{ pool: pg.Pool; url: string; close(): Promise<void> }> {
  const { url } = await testDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  // The database is dropped at the end, which ends sessions that are still in it.
  pool.on('error', () => undefined);
  await migrate({ database: pool });
  return { pool, url, close: () => pool.end() };
}
