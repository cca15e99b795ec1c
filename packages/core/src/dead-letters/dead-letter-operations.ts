import type pg from 'pg';
import type { DeadLetter, DeadLetterEntry, DeadLetterRecoveryStatus } from '../contract/dead-letter.js';
import type { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { SchemaName } from '../database/schema-name.js';
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
  /** Dead letters a second, at the most. Default 100. */
  readonly perSecond?: number;
  /** Stop when this share of what was retried is dead again, between 0 and 1. Default 0.5; looked at after every 100. */
  readonly stopWhenDeadAgain?: number;
  readonly signal?: AbortSignal;
}

export interface BulkResult {
  readonly matched: number;
  readonly changed: number;
  /** True when too many of those retried were dead again. */
  readonly stopped: boolean;
}

const bulkPage = 100;

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
    const done = await this.#ask('retry_dead_letter', deadLetterId, actor);
    this.#scanNow();
    return done;
  }

  /** To be left alone by the policy and by new generations. */
  async hold(deadLetterId: string, actor: string): Promise<boolean> {
    return this.#ask('hold_dead_letter', deadLetterId, actor);
  }

  /** Never again. */
  async giveUp(deadLetterId: string, actor: string): Promise<boolean> {
    return this.#ask('give_up_dead_letter', deadLetterId, actor);
  }

  async note(deadLetterId: string, actor: string, note: string): Promise<boolean> {
    return this.#ask('note_dead_letter', deadLetterId, actor, note.replaceAll('\0', '\uFFFD').toWellFormed());
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

  /** Wakes the recovery worker of this process, when it is the elected one. */
  scanNow(): void {
    this.#scanNow();
  }

  async #inBulk(filter: DeadLetterFilter, options: BulkOptions, call: string): Promise<BulkResult> {
    const { actor, dryRun = false, perSecond = 100, stopWhenDeadAgain = 0.5, signal } = options;
    if (actor.trim() === '') {
      throw new ConfigurationError('actor must say who does it.');
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
    for (let from = 0; from < ids.length && signal?.aborted !== true; from += bulkPage) {
      const page = ids.slice(from, from + bulkPage);
      for (const id of page) {
        changed += (await this.#ask(call, id, actor)) ? 1 : 0;
      }
      if (call === 'retry_dead_letter') {
        this.#scanNow();
      }
      await pause((page.length / perSecond) * 1000, signal);
      if (call === 'retry_dead_letter' && (await this.#shareDeadAgain(page)) > stopWhenDeadAgain) {
        return { matched: ids.length, changed, stopped: true };
      }
    }
    return { matched: ids.length, changed, stopped: false };
  }

  /** Of dead letters that were just retried: the share that is dead again rather than on its way or gone. */
  async #shareDeadAgain(ids: readonly string[]): Promise<number> {
    const { rows } = await this.#pool.query<{ dead: number }>(
      `select count(*)::integer as dead from ${this.#prefix}wh_dead_letters d
       where d.dead_letter_id = any ($1) and d.recovered_at is null and d.last_recovery_at is not null
         and d.dead_lettered_at > d.last_recovery_at`,
      [ids],
    );
    return (rows[0]?.dead ?? 0) / Math.max(ids.length, 1);
  }

  async #ask(call: string, ...values: string[]): Promise<boolean> {
    const parameters = values.map((_, index) => `$${index + 1}`).join(', ');
    const { rows } = await this.#pool.query<{ answer: boolean }>(
      `select ${this.#prefix}${call}(${parameters}) as answer`,
      values,
    );
    return rows[0]?.answer === true;
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
    conditions.push(`d.dead_lettered_at < ${parameter(filter.before.toISOString())}::timestamptz`);
  }
  if (filter.since !== undefined) {
    conditions.push(`d.dead_lettered_at >= ${parameter(filter.since.toISOString())}::timestamptz`);
  }
  if (filter.includeRecovered !== true) {
    conditions.push('d.recovered_at is null');
  }
  if (after !== undefined) {
    conditions.push(`d.dead_letter_id < ${parameter(after)}`);
  }
  return { where: conditions.join(' and '), values };
}
