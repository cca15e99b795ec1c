import type pg from 'pg';
import type { DeadLetterEntry } from '../contract/dead-letter.js';
import type { SchemaName } from '../database/schema-name.js';
import { type DeadLetterRow, deadLetterColumns, toEntry } from './dead-letter-row.js';

const streamBatch = 1_000;

/** The SQL of recovery. */
export class DeadLetterStore {
  readonly #pool: pg.Pool;
  readonly #prefix: string;

  constructor(pool: pg.Pool, schema: SchemaName) {
    this.#pool = pool;
    this.#prefix = schema.prefix;
  }

  /** What may be looked at, oldest first, and the time by which to judge it: the database's, unless one is given. */
  async due(limit: number, now?: Date): Promise<{ readonly entries: readonly DeadLetterEntry[]; readonly now: Date }> {
    const { rows } = await this.#pool.query<DeadLetterRow & { now_ms: number }>(
      `select ${deadLetterColumns}, extract(epoch from coalesce($1::timestamptz, clock_timestamp()))::double precision * 1000 as now_ms from ${this.#prefix}fetch_dead_letters_due(coalesce($1::timestamptz, clock_timestamp()), $2) d
       order by d.dead_lettered_at, d.source_sequence`,
      [now?.toISOString() ?? null, limit],
    );
    return { entries: rows.map(toEntry), now: now ?? new Date(rows[0]?.now_ms ?? 0) };
  }

  /** Milliseconds until the next recovery that is scheduled, `null` when none is. */
  async nextDueMs(): Promise<number | null> {
    const { rows } = await this.#pool.query<{ ms: number | null }>(
      `select extract(epoch from min(next_recovery_at) - clock_timestamp())::double precision * 1000 as ms
       from ${this.#prefix}wh_dead_letters
       where recovered_at is null and recovery_status in (0, 1) and next_recovery_at > clock_timestamp()
         and next_recovery_at < 'infinity'`,
    );
    return rows[0]?.ms ?? null;
  }

  async recover(deadLetterId: string): Promise<boolean> {
    return this.#ask('recover_dead_letter($1)', [deadLetterId]);
  }

  /** Brings the dead letters of a stream back together, a thousand in a transaction; returns those that came. */
  async recoverStream(sourceTable: string, streamId: string): Promise<readonly string[]> {
    const recovered: string[] = [];
    for (;;) {
      const { rows } = await this.#pool.query<{ id: string }>(
        `select recovered as id from ${this.#prefix}recover_dead_letter_stream($1, $2, $3) as recovered`,
        [sourceTable, streamId, streamBatch],
      );
      recovered.push(...rows.map((row) => row.id));
      if (rows.length < streamBatch) {
        return recovered;
      }
    }
  }

  async hold(deadLetterId: string): Promise<boolean> {
    return this.#ask('mark_dead_letter_holding($1)', [deadLetterId]);
  }

  async giveUp(deadLetterId: string): Promise<boolean> {
    return this.#ask('mark_dead_letter_permanently_failed($1)', [deadLetterId]);
  }

  async schedule(deadLetterId: string, next: Date): Promise<boolean> {
    return this.#ask('schedule_next_dead_letter_attempt($1, $2::timestamptz)', [deadLetterId, next.toISOString()]);
  }

  async resetForGeneration(generation: string): Promise<number> {
    const { rows } = await this.#pool.query<{ answer: number }>(
      `select ${this.#prefix}reset_dead_letters_for_generation($1) as answer`,
      [generation],
    );
    return rows[0]?.answer ?? 0;
  }

  async #ask(call: string, values: unknown[]): Promise<boolean> {
    const { rows } = await this.#pool.query<{ answer: boolean }>(`select ${this.#prefix}${call} as answer`, values);
    return rows[0]?.answer === true;
  }
}
