import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import { DatabaseUnavailableError } from '../errors/whizbang-error.js';
import { monotonicMs, pause } from '../runtime/clock.js';
import type { SchemaName } from './schema-name.js';

// A lock that DDL waits for is a lock that everybody behind it waits for.
const statementWaitMs = 500;
// Between two tries, so that those who queued behind the last one get their turn. Another migration holds up nobody else.
const pauseMs = 1_000;
const pauseForMigrationMs = 100;
const tellEveryMs = 10_000;

const lockNotAvailable = '55P03';
const deadlockDetected = '40P01';

interface Holder {
  pid: number;
  application: string | null;
  state: string | null;
  seconds: number | null;
}

/** The locks of one migration: how long it waits, for whom, and what it says of them. */
export class LockWait {
  readonly #schema: SchemaName;
  readonly #timeoutMs: number;
  readonly #logger: Logger;
  readonly #begunMs = monotonicMs();
  #toldMs = monotonicMs();
  #behindMigration = false;

  constructor(schema: SchemaName, timeoutMs: number, logger: Logger) {
    this.#schema = schema;
    // What PostgreSQL takes for its timeouts.
    this.#timeoutMs = Math.round(Math.min(Math.max(timeoutMs, 1), 2_147_483_647));
    this.#logger = logger;
  }

  /** Takes the lock of migrations for this transaction, unless somebody has it, and sets how long its statements may wait. */
  async lock(connection: pg.ClientBase): Promise<boolean> {
    const { rows } = await connection.query<{ locked: boolean }>(
      `select pg_try_advisory_xact_lock(hashtext($1), hashtext($2)) as locked,
              set_config('lock_timeout', $3, true),
              set_config('idle_in_transaction_session_timeout', $4, true)`,
      [...this.#key, `${statementWaitMs}ms`, `${this.#timeoutMs}ms`],
    );
    const locked = rows[0]?.locked === true;
    this.#behindMigration = !locked;
    return locked;
  }

  /** Whether a statement failed for a lock that somebody else holds. */
  isHeldUp(error: unknown): boolean {
    const { code } = (error ?? {}) as { code?: string };
    return code === lockNotAvailable || code === deadlockDetected;
  }

  /**
   * Waits before the next try, outside of any transaction.
   *
   * @throws DatabaseUnavailableError naming the holders, when it has waited long enough
   */
  async pause(connection: pg.ClientBase): Promise<void> {
    const now = monotonicMs();
    if (now - this.#begunMs >= this.#timeoutMs) {
      throw new DatabaseUnavailableError(
        `The migration of schema '${this.#schema.name}' has waited ${this.#timeoutMs} ms for ${await this.#whom(connection)}. Nothing has changed; end that session, or try again later.`,
        { retryable: true },
      );
    }
    if (now - this.#toldMs >= tellEveryMs) {
      this.#toldMs = now;
      this.#logger.warn(
        { schema: this.#schema.name, waitsFor: await this.#whom(connection) },
        'The migration waits for locks that others hold',
      );
    }
    await pause(this.#behindMigration ? pauseForMigrationMs : pauseMs);
  }

  get #key(): [string, string] {
    return ['whizbang migrate', this.#schema.name];
  }

  async #whom(connection: pg.ClientBase): Promise<string> {
    const held = this.#behindMigration
      ? `l.locktype = 'advisory' and l.objsubid = 2 and l.classid::bigint = hashtext($1) & 4294967295
         and l.objid::bigint = hashtext($2) & 4294967295`
      : `l.locktype = 'relation' and l.relation in (
           select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $2 and $1 <> '')`;
    const { rows } = await connection.query<Holder>(
      `select distinct a.pid, a.application_name as application, a.state,
              extract(epoch from clock_timestamp() - a.xact_start)::integer as seconds
       from pg_locks l join pg_stat_activity a using (pid)
       where l.granted and l.pid <> pg_backend_pid() and l.database = (
         select d.oid from pg_database d where d.datname = current_database()) and ${held}
       order by seconds desc nulls last limit 5`,
      this.#key,
    );
    const what = this.#behindMigration ? 'another migration' : 'transactions that use its tables';
    const who = rows.map(
      ({ pid, application, state, seconds }) =>
        `process ${pid} of the server (${[application, state, seconds === null ? null : `for ${seconds} s`].filter(Boolean).join(', ')})`,
    );
    return who.length === 0 ? what : `${what}: ${who.join('; ')}`;
  }
}
