import { type Logger, type Whizbang, type WhizbangOptions, createWhizbang, migrate } from '@whizbang/core';
import pg from 'pg';
import { afterAll, onTestFinished } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { testDatabase } from '../fixtures/test-services.js';

type CleanUp = () => Promise<void>;
const atEndOfFile: CleanUp[] = [];

afterAll(async () => {
  for (const cleanUp of atEndOfFile.splice(0).toReversed()) await cleanUp();
});

/** At the end of the test, or of the file when called in a beforeAll; what was asked for last goes first. */
export function atEnd(cleanUp: CleanUp): void {
  try {
    onTestFinished(cleanUp);
  } catch {
    atEndOfFile.push(cleanUp);
  }
}

/** A pool that is closed at the end, and whose connections may be cut by a test. */
export function testPool(connectionString: string, max = 4): pg.Pool {
  const pool = new pg.Pool({ connectionString, max });
  pool.on('error', () => undefined);
  atEnd(() => pool.end());
  return pool;
}

/** A migrated database of its own, with a pool. */
export async function migratedDatabase(): Promise<{ readonly url: string; readonly pool: pg.Pool }> {
  const { url } = await testDatabase();
  const pool = testPool(url, 16);
  await migrate({ database: pool });
  return { url, pool };
}

let services = 0;

/** A service in this process, stopped at the end. Default: its publisher, handlers and broker are all in here. */
export async function testService(
  options: Partial<WhizbangOptions> & Pick<WhizbangOptions, 'database'>,
): Promise<Whizbang> {
  services += 1;
  // A broker each: what one test leaves in memory is not for the next one.
  const whizbang = await createWhizbang({ service: 'shipping', broker: `memory:scenario-${services}`, ...options });
  atEnd(async () => void (await whizbang.stop()));
  return whizbang;
}

/** Resolves when so many publishers and dispatchers have nothing to do and have armed their doorbells, later than `since`. */
export async function untilAsleep(pool: pg.Pool, workers: number, since = new Date(0)): Promise<void> {
  const asleep = async () => {
    const { rows } = await pool.query<{ channel: string }>(
      `select channel from whizbang.wh_doorbells where channel in ('outbox', 'inbox') and armed_at >= $1`,
      [since],
    );
    if (rows.length !== workers) throw new Error(`armed: ${JSON.stringify(rows)}`);
    return true;
  };
  await waitFor(asleep, { message: `${workers} workers asleep`, timeoutMs: 30_000 });
}

/** A logger that keeps what it is told. */
export class KeptLog implements Logger {
  readonly lines: string[] = [];
  readonly debug = (): void => undefined;
  readonly info = (fields: object, message: string): void => this.#keep(fields, message);
  readonly warn = (fields: object, message: string): void => this.#keep(fields, message);
  readonly error = (fields: object, message: string): void => this.#keep(fields, message);

  about(pattern: RegExp): string[] {
    return this.lines.filter((line) => pattern.test(line));
  }

  #keep(fields: object, message: string): void {
    this.lines.push(`${message} ${JSON.stringify(fields)}`);
  }
}

/** Commits what `work` did on one connection, or rolls it back when it rejects. */
export async function inTransaction<Result>(
  pool: pg.Pool,
  work: (tx: pg.PoolClient) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  try {
    await client.query('begin');
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
