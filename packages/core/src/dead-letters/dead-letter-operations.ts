import type pg from 'pg';
import type { DeadLetter, DeadLetterEntry, DeadLetterRecoveryStatus } from '../contract/dead-letter.js';
import type { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { SchemaName } from '../database/schema-name.js';
import { timestamptz } from '../database/timestamptz.js';
import { ConfigurationError } from '../errors/whizbang-error.js';
import { pause } from '../runtime/clock.js';
import {
  type DeadLetterRow,
  type WholeDeadLetterRow,
  deadLetterColumns,
  toDeadLetter,
  toEntry,
  wholeDeadLetterColumns,
} from './dead-letter-row.js';

/** Which dead letters; what is left out does not restrict. */
export interface DeadLetterFilter {
  readonly reason?: MessageFailureReason;
  readonly lastReason?: MessageFailureReason;
  readonly messageType?: string;
  readonly streamId?: string;
  readonly destination?: string;
  readonly sourceTable?: 'wh_outbox' | 'wh_inbox';
  readonly fingerprint?: string;
  /** A part of the error's text, in any case. */
  readonly text?: string;
  readonly status?: DeadLetterRecoveryStatus;
  /** Dead-lettered before this time. */
  readonly before?: Date;
  /** Dead-lettered at this time or later. */
  readonly since?: Date;
  /** Default false: what has been recovered is left out. */
  readonly includeRecovered?: boolean;
}

export interface DeadLetterPage {
  readonly entries: readonly DeadLetterEntry[];
  /** For the next page; `null` on the last. */
  readonly next: string | null;
}

export interface BulkOptions {
  /** Who does it; kept with the dead letter. */
  readonly actor: string;
  /** Only count what it would do. Default false. */
  readonly dryRun?: boolean;
  /** Dead letters a second, at the most; above 0. Default 100. */
  readonly perSecond?: number;
  /**
   * For retries: stop when more than this share of what has had a result failed again, between 0 and 1. Default 0.5. Looked at
   * after every second, over the last 1,000 retried, once 10 of them (or all, if there are fewer) have failed again: waiting for their
   * next try, or dead.
   */
  readonly stopWhenDeadAgain?: number;
  readonly signal?: AbortSignal;
}

export interface BulkResult {
  readonly matched: number;
  readonly changed: number;
  /** True when too many of those retried failed again. */
  readonly stopped: boolean;
}

const watchedRetries = 1_000;
const fewFailures = 10;

/** What operators do with dead letters; a command line or a console calls these. */
export class DeadLetterOperations {
  readonly #pool: pg.Pool;
  readonly #prefix: string;
  readonly #scanNow: () => void;

  /** @internal Reached through `whizbang.deadLetters`. */
  constructor(pool: pg.Pool, schema: SchemaName, scanNow: () => void) {
    this.#pool = pool;
    this.#prefix = schema.prefix;
    this.#scanNow = scanNow;
  }

  /** Newest first. @param page.limit - entries in one page. Default 50, at the most 1,000 */
  async list(filter: DeadLetterFilter = {}, page: { after?: string; limit?: number } = {}): Promise<DeadLetterPage> {
    const limit = Math.min(Math.max(page.limit ?? 50, 1), 1_000);
    const { where, values } = whereOf(filter, page.after);
    const { rows } = await this.#pool.query<DeadLetterRow>(
      `select ${deadLetterColumns} from ${this.#prefix}wh_dead_letters d where ${where}
       order by d.dead_letter_id desc limit ${limit + 1}`,
      values,
    );
    const entries = rows.slice(0, limit).map(toEntry);
    return { entries, next: rows.length > limit ? (entries.at(-1)?.deadLetterId ?? null) : null };
  }

  async count(filter: DeadLetterFilter = {}): Promise<number> {
    const { where, values } = whereOf(filter, undefined);
    const { rows } = await this.#pool.query<{ count: number }>(
      `select count(*)::integer as count from ${this.#prefix}wh_dead_letters d where ${where}`,
      values,
    );
    return rows[0]?.count ?? 0;
  }

  /** One dead letter with its payload, or `undefined`. */
  async show(deadLetterId: string): Promise<DeadLetter | undefined> {
    const { rows } = await this.#pool.query<WholeDeadLetterRow>(
      `select ${wholeDeadLetterColumns} from ${this.#prefix}wh_dead_letters d where d.dead_letter_id = $1`,
      [deadLetterId],
    );
    return rows[0] === undefined ? undefined : toDeadLetter(rows[0]);
  }

  /** Back to work at once, with one attempt beyond its budget. False when it is recovered already or cannot come back. */
  async retry(deadLetterId: string, actor: string): Promise<boolean> {
    const done = await this.#act('retry_dead_letter', deadLetterId, actor);
    this.#scanNow();
    return done;
  }

  /** To be left alone by the policy and by new generations. */
  async hold(deadLetterId: string, actor: string): Promise<boolean> {
    return this.#act('hold_dead_letter', deadLetterId, actor);
  }

  /** Never again. */
  async giveUp(deadLetterId: string, actor: string): Promise<boolean> {
    return this.#act('give_up_dead_letter', deadLetterId, actor);
  }

  async note(deadLetterId: string, actor: string, note: string): Promise<boolean> {
    return this.#act('note_dead_letter', deadLetterId, actor, note.replaceAll('\0', '\uFFFD').toWellFormed());
  }

  /** Retries all that match, oldest first, slowly, and stops by itself when too many are dead again. */
  async retryAll(filter: DeadLetterFilter, options: BulkOptions): Promise<BulkResult> {
    return this.#inBulk(filter, options, 'retry_dead_letter');
  }

  async holdAll(filter: DeadLetterFilter, options: BulkOptions): Promise<BulkResult> {
    return this.#inBulk(filter, options, 'hold_dead_letter');
  }

  async giveUpAll(filter: DeadLetterFilter, options: BulkOptions): Promise<BulkResult> {
    return this.#inBulk(filter, options, 'give_up_dead_letter');
  }

  /** Has the elected instance's recovery worker look now, whichever process it is. */
  async scanNow(): Promise<void> {
    this.#scanNow();
    await this.#pool.query(`select ${this.#prefix}ring_doorbell('deadletter')`);
  }

  async #inBulk(filter: DeadLetterFilter, options: BulkOptions, call: string): Promise<BulkResult> {
    const { actor, dryRun = false, perSecond = 100, stopWhenDeadAgain = 0.5, signal } = options;
    checkActor(actor);
    if (!(perSecond > 0)) {
      throw new ConfigurationError('perSecond must be above 0.');
    }
    const { where, values } = whereOf(filter, undefined);
    const { rows } = await this.#pool.query<{ id: string }>(
      `select d.dead_letter_id as id from ${this.#prefix}wh_dead_letters d where ${where} order by d.dead_lettered_at, d.source_sequence`,
      values,
    );
    const ids = rows.map((row) => row.id);
    let changed = 0;
    if (dryRun) {
      return { matched: ids.length, changed, stopped: false };
    }
    // A second's worth at a time, so that no second has more.
    const size = Math.min(Math.max(Math.floor(perSecond), 1), watchedRetries);
    for (let from = 0; from < ids.length && signal?.aborted !== true; from += size) {
      const page = ids.slice(from, from + size);
      for (const id of page) {
        changed += (await this.#act(call, id, actor)) ? 1 : 0;
      }
      if (call === 'retry_dead_letter') {
        this.#scanNow();
      }
      await pause((page.length / perSecond) * 1000, signal);
      if (call === 'retry_dead_letter') {
        const retried = ids.slice(Math.max(0, from + page.length - watchedRetries), from + page.length);
        if (await this.#failAgain(retried, stopWhenDeadAgain)) {
          return { matched: ids.length, changed, stopped: true };
        }
      }
    }
    return { matched: ids.length, changed, stopped: false };
  }

  /** Whether too large a share of what was retried failed again, of what has had a result. */
  async #failAgain(ids: readonly string[], share: number): Promise<boolean> {
    // Back in its table it begins at 0 attempts. With one more and no lease it has failed and waits for its retry.
    const { rows } = await this.#pool.query<{ failed: number; gone: number }>(
      `with retried as (
         select d.recovered_at is null and d.dead_lettered_at > d.last_recovery_at as dead, d.recovered_at is not null as back,
                coalesce(o.attempts, i.attempts) as attempts, coalesce(o.instance_id, i.instance_id) as held_by,
                coalesce(o.message_id, i.message_id) is null as gone
         from ${this.#prefix}wh_dead_letters d
         left join ${this.#prefix}wh_outbox o
           on o.message_id = d.source_id and d.source_table = 'wh_outbox' and o.processed_at is null
         left join ${this.#prefix}wh_inbox i
           on i.message_id = d.source_id and d.source_table = 'wh_inbox' and i.processed_at is null
         where d.dead_letter_id = any ($1)
       )
       select (count(*) filter (where dead or (back and attempts > 0 and held_by is null)))::integer as failed,
              (count(*) filter (where back and gone))::integer as gone
       from retried`,
      [ids],
    );
    const { failed = 0, gone = 0 } = rows[0] ?? {};
    return failed >= Math.min(fewFailures, ids.length) && failed > share * (failed + gone);
  }

  async #act(call: string, deadLetterId: string, actor: string, ...more: string[]): Promise<boolean> {
    checkActor(actor);
    const values = [deadLetterId, actor, ...more];
    const parameters = values.map((_, index) => `$${index + 1}`).join(', ');
    const { rows } = await this.#pool.query<{ answer: boolean }>(
      `select ${this.#prefix}${call}(${parameters}) as answer`,
      values,
    );
    return rows[0]?.answer === true;
  }
}

function checkActor(actor: string): void {
  if (actor.trim() === '') {
    throw new ConfigurationError('actor must say who does it.');
  }
}

function whereOf(filter: DeadLetterFilter, after: string | undefined): { where: string; values: unknown[] } {
  const values: unknown[] = [];
  const parameter = (value: unknown) => `$${values.push(value)}`;
  const conditions = ['true'];
  const equals: [string, unknown][] = [
    ['failure_reason', filter.reason],
    ['last_failure_reason', filter.lastReason],
    ['message_type', filter.messageType],
    ['stream_id', filter.streamId],
    ['destination', filter.destination],
    ['source_table', filter.sourceTable],
    ['error_fingerprint', filter.fingerprint],
    ['recovery_status', filter.status],
  ];
  for (const [column, value] of equals) {
    if (value !== undefined) {
      conditions.push(`d.${column} = ${parameter(value)}`);
    }
  }
  if (filter.text !== undefined) {
    conditions.push(`strpos(lower(d.error_text), lower(${parameter(filter.text)})) > 0`);
  }
  if (filter.before !== undefined) {
    conditions.push(`d.dead_lettered_at < ${parameter(timestamptz(filter.before))}::timestamptz`);
  }
  if (filter.since !== undefined) {
    conditions.push(`d.dead_lettered_at >= ${parameter(timestamptz(filter.since))}::timestamptz`);
  }
  if (filter.includeRecovered !== true) {
    conditions.push('d.recovered_at is null');
  }
  if (after !== undefined) {
    conditions.push(`d.dead_letter_id < ${parameter(after)}`);
  }
  return { where: conditions.join(' and '), values };
}
