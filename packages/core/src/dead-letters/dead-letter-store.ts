import type pg from 'pg';
import type { DeadLetterEntry } from '../contract/dead-letter.js';
import type { SchemaName } from '../database/schema-name.js';
import { timestamptz } from '../database/timestamptz.js';
import { type DeadLetterRow, deadLetterColumns, toEntry } from './dead-letter-row.js';

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
      [now === undefined ? null : timestamptz(now), limit],
    );
    return { entries: rows.map(toEntry), now: now ?? new Date(rows[0]?.now_ms ?? 0) };
  }

  /** Milliseconds until the next recovery that is scheduled, `null` when none is. */
  async nextDueMs(): Promise<number | null> {
    const { rows } = await this.#pool.query<{ ms: number | null }>(
      `select extract(epoch from min(next_recovery_at) - clock_timestamp())::double precision * 1000 as ms
       from ${this.#prefix}wh_dead_letters
       where recovered_at is null and recovery_status in (0, 1) and operator_disposition not in (2, 3)
         and next_recovery_at < 'infinity'`,
    );
    return rows[0]?.ms ?? null;
  }

  /** The dead letters of a stream that are not recovered, in their order, up to 1,000. */
  async ofStream(sourceTable: string, streamId: string): Promise<readonly DeadLetterEntry[]> {
    const { rows } = await this.#pool.query<DeadLetterRow>(
      `select ${deadLetterColumns} from ${this.#prefix}wh_dead_letters d
       where d.source_table = $1 and d.stream_id = $2 and d.recovered_at is null
       order by d.source_sequence limit 1000`,
      [sourceTable, streamId],
    );
    return rows.map(toEntry);
  }

  /** Brings dead letters back together, in the order given; returns those that came. */
  async recover(deadLetterIds: readonly string[]): Promise<readonly string[]> {
    const { rows } = await this.#pool.query<{ id: string }>(
      `select recovered as id from ${this.#prefix}recover_dead_letters($1) as recovered`,
      [deadLetterIds],
    );
    return rows.map((row) => row.id);
  }

  async hold(deadLetterId: string): Promise<boolean> {
    return this.#ask('mark_dead_letter_holding($1)', [deadLetterId]);
  }

  async giveUp(deadLetterId: string): Promise<boolean> {
    return this.#ask('mark_dead_letter_permanently_failed($1)', [deadLetterId]);
  }

  async schedule(deadLetterId: string, next: Date): Promise<boolean> {
    return this.#ask('schedule_next_dead_letter_attempt($1, $2::timestamptz)', [deadLetterId, timestamptz(next)]);
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
