import { randomBytes } from 'node:crypto';

import { type Logger, type Whizbang, type WhizbangOptions, createWhizbang, migrate } from '@whizbang/core';
import { InProcessBroker } from '@whizbang/core/testing';
import pg from 'pg';
import { onTestFinished } from 'vitest';

import { testDatabase } from '../fixtures/test-services.js';
import { waitFor } from '../fixtures/wait-for.js';

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export type DeadLetterLine = Readonly<Record<string, unknown>> & {
  readonly n: number | null;
  readonly error_text: string | null;
};

/** One service after another, or several at once, on a database and a broker in this process that end with the test. */
export class Stage {
  readonly brokerName = `failure-${randomBytes(6).toString('hex')}`;
  readonly broker = InProcessBroker.named(this.brokerName);
  readonly log: LogLine[] = [];

  private constructor(
    readonly url: string,
    readonly pool: pg.Pool,
  ) {}

  static async open(): Promise<Stage> {
    const creating = testDatabase().then(async ({ url }) => {
      const pool = new pg.Pool({ connectionString: url, max: 4 });
      // The database is dropped at the end, which ends sessions that are still in it.
      pool.on('error', () => undefined);
      return new Stage(url, pool);
    });
    onTestFinished(async () => {
      const stage = await creating;
      await stage.pool.end();
      InProcessBroker.remove(stage.brokerName);
    });
    const stage = await creating;
    await migrate({ database: stage.pool });
    return stage;
  }

  /** A service with short intervals, stopped at the end of the test; `options` may replace any of them. */
  async service(options: Partial<WhizbangOptions>): Promise<Whizbang> {
    const whizbang = await createWhizbang({
      service: 'shipping',
      database: this.url,
      broker: `memory:${this.brokerName}`,
      logger: this.#logger(),
      stopTimeoutMs: 2_000,
      ...options,
      failures: { baseSeconds: 0.02, maxFactor: 2, breaker: { enabled: false }, ...options.failures },
      wakeups: { safetyPollMs: 500, ...options.wakeups },
    });
    onTestFinished(async () => void (await whizbang.stop()));
    return whizbang;
  }

  async query<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.pool.query<Row>(text, values)).rows;
  }

  async count(table: 'wh_outbox' | 'wh_inbox' | 'wh_dead_letters', where = 'true'): Promise<number> {
    const [row] = await this.query<{ count: number }>(
      `select count(*)::integer as count from whizbang.${table} where ${where}`,
    );
    return row?.count ?? -1;
  }

  /** Dead letters in the order of their streams. */
  async dead(where = 'recovered_at is null'): Promise<DeadLetterLine[]> {
    return this.query(
      `select source_table, message_type, (envelope ->> 'n')::integer as n, failure_reason, last_failure_reason, error_text,
              attempts_when_dlq, parks_stream, recovery_status, recovery_attempts, error_fingerprint, source_id, dead_letter_id
       from whizbang.wh_dead_letters where ${where} order by stream_id, source_sequence`,
    );
  }

  async waitForDead(count: number, where?: string): Promise<DeadLetterLine[]> {
    return waitFor(
      async () => {
        const dead = await this.dead(where);
        return dead.length === count && dead;
      },
      { message: `${count} dead letters`, timeoutMs: 30_000 },
    );
  }

  /** The notifications of a channel from now on, as they come. */
  async notifications(channel: 'outbox' | 'inbox' | 'deadletter'): Promise<unknown[]> {
    const [row] = await this.query<{ name: string }>('select whizbang.wake_channel($1) as name', [channel]);
    const client = new pg.Client({ connectionString: this.url });
    client.on('error', () => undefined);
    await client.connect();
    onTestFinished(() => client.end());
    const received: unknown[] = [];
    client.on('notification', (notification) => received.push(notification));
    await client.query(`listen ${pg.escapeIdentifier(row?.name ?? '')}`);
    return received;
  }

  /** Nothing waits any more. */
  async waitForEmpty(timeoutMs = 30_000): Promise<void> {
    await waitFor(
      async () =>
        (await this.count('wh_outbox', 'processed_at is null')) +
          (await this.count('wh_inbox', 'processed_at is null')) ===
        0,
      { message: 'an empty outbox and inbox', timeoutMs },
    );
  }

  #logger(): Logger {
    const at = (level: string) => (fields: object, message?: string) => {
      this.log.push({ level, message: message ?? '', fields: { ...fields } });
    };
    return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  }
}
