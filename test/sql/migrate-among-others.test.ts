import { createWhizbang, migrate } from '@whizbang/core';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';

import { testDatabase } from '../fixtures/test-services.js';
import { waitFor } from '../fixtures/wait-for.js';
import { WorkTable } from './work-table.js';

const me = '0190aaaa-0000-7000-8000-000000000001';

interface Warning {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

async function emptyDatabase(): Promise<{ url: string; pool: pg.Pool }> {
  const { url } = await testDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 12 });
  pool.on('error', () => undefined);
  onTestFinished(() => pool.end());
  return { url, pool };
}

/** A database whose last migration is still to come: an index on the table that everybody writes to. */
async function almostMigrated(): Promise<{ url: string; pool: pg.Pool }> {
  const database = await emptyDatabase();
  await migrate({ database: database.pool });
  await database.pool.query('drop index whizbang.idx_outbox_parked, whizbang.idx_inbox_parked');
  await database.pool.query(`delete from whizbang.wh_schema_migrations where name = '0002_parked_rows'`);
  return database;
}

/** A session of somebody else, by its name at the server. */
async function somebody(url: string, name: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: name });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

const waitingForLock = (pool: pg.Pool) =>
  pool.query(
    `select 1 from pg_stat_activity where datname = current_database() and application_name = 'whizbang-migrate'
     and wait_event_type = 'Lock'`,
  );

test('a migration that waits for a long transaction holds up those who write for a moment only, and is done afterwards', async () => {
  const { url, pool } = await almostMigrated();
  const long = await somebody(url, 'long-import');
  await long.query('begin');
  await new WorkTable('outbox', pool).store(['a1'], { on: long });

  let migrated = false;
  const migrating = migrate({ database: url }).finally(() => (migrated = true));
  await waitFor(async () => ((await waitingForLock(pool)).rowCount ?? 0) > 0, { message: 'the migration to wait' });
  // Over several of its tries: without a limit each of these would wait for the end of the long transaction.
  const table = new WorkTable('outbox', pool);
  const longest = Math.max(
    ...(await Promise.all(
      Array.from({ length: 4 }, async () => {
        const times: number[] = [];
        const endMs = performance.now() + 4000;
        while (performance.now() < endMs) {
          const before = performance.now();
          await table.store(['b1']);
          times.push(performance.now() - before);
        }
        return Math.max(...times);
      }),
    )),
  );
  expect(migrated).toBe(false);
  // Half a second behind the migration; the rest is for a machine that is busy.
  expect(longest).toBeLessThan(2000);
  await long.query('commit');
  expect(await migrating).toEqual({ applied: ['0002_parked_rows'] });
}, 60_000);

test('a migration that has waited long enough names who holds its tables, and nothing has changed', async () => {
  const { url, pool } = await almostMigrated();
  const long = await somebody(url, 'forgotten-session');
  await long.query('begin');
  await new WorkTable('outbox', pool).store(['a1'], { on: long });
  const { rows } = await long.query<{ pid: number }>('select pg_backend_pid() as pid');

  await expect(migrate({ database: url, lockTimeoutMs: 1000 })).rejects.toMatchObject({
    code: 'WHIZBANG_DATABASE_UNAVAILABLE',
    retryable: true,
    message: expect.stringMatching(
      new RegExp(
        `waited 1000 ms for transactions that use its tables: process ${rows[0]?.pid} .*forgotten-session, idle`,
      ),
    ) as string,
  });
  // Nothing of it is left at the server that others would wait for.
  const left = await pool.query(
    `select 1 from pg_locks l join pg_stat_activity a using (pid) where a.application_name = 'whizbang-migrate'`,
  );
  expect(left.rowCount).toBe(0);
  await long.query('commit');
  expect(await migrate({ database: url })).toEqual({ applied: ['0002_parked_rows'] });
});

test('a migration waits for another one, tells for whom, and goes on when that has ended', async () => {
  const { url } = await emptyDatabase();
  const other = await somebody(url, 'other-deploy');
  await other.query('begin');
  await other.query(`select pg_advisory_xact_lock(hashtext('whizbang migrate'), hashtext('whizbang'))`);
  await expect(migrate({ database: url, lockTimeoutMs: 500 })).rejects.toMatchObject({
    code: 'WHIZBANG_DATABASE_UNAVAILABLE',
    message: expect.stringMatching(/waited 500 ms for another migration: process \d+ .*other-deploy, idle/) as string,
  });

  const warnings: Warning[] = [];
  const nothing = () => undefined;
  const warn = (fields: object, message: string) => warnings.push({ fields: { ...fields }, message });
  const whizbang = await createWhizbang({
    service: 'orders',
    database: url,
    broker: 'memory:',
    logger: { debug: nothing, info: nothing, error: nothing, warn },
  });
  onTestFinished(async () => void (await whizbang.stop()));
  const migrating = whizbang.migrate();
  await waitFor(() => warnings.length > 0, { message: 'the log to say for whom', timeoutMs: 20_000 });
  expect(warnings[0]).toMatchObject({
    message: 'The migration waits for locks that others hold',
    fields: { schema: 'whizbang', waitsFor: expect.stringContaining('other-deploy') as string },
  });
  await other.query('rollback');
  expect((await migrating).applied.length).toBeGreaterThan(20);
}, 60_000);

/** A pool with one client, which stops answering, or is cut off, at its n-th statement. */
function failingAt(pool: pg.Pool, n: number, how: 'silent' | 'cut'): pg.Pool {
  const connect = async () => {
    const client = await pool.connect();
    let statements = 0;
    const query = async (...parameters: unknown[]): Promise<unknown> => {
      statements += 1;
      if (statements === n && how === 'silent') {
        await new Promise((_, reject) => client.once('end', () => reject(new Error('ended'))));
      }
      if (statements === n) {
        (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
      }
      return Reflect.apply(client.query.bind(client) as (...all: unknown[]) => unknown, undefined, parameters);
    };
    return {
      query,
      on: client.on.bind(client),
      off: client.off.bind(client),
      release: (broken?: boolean) => client.release(broken),
    };
  };
  return { connect } as unknown as pg.Pool;
}

test('a migration that falls silent is ended by the server, and the next one does all of it', async () => {
  const { url, pool } = await emptyDatabase();
  const silent = migrate({ database: failingAt(pool, 12, 'silent'), lockTimeoutMs: 1000 });
  const ended = silent.then(
    () => 'migrated',
    (error: unknown) => String(error),
  );
  const holds = `select 1 from pg_locks where locktype = 'advisory' and granted and database = (
    select oid from pg_database where datname = current_database())`;
  await waitFor(async () => (await pool.query(holds)).rowCount === 1, { message: 'the silent one to hold the lock' });
  const { applied } = await migrate({ database: url, lockTimeoutMs: 20_000 });
  expect(applied.length).toBeGreaterThan(20);
  expect(await ended).toContain('ended');
  await seeItWork(pool);
});

test('a migration that is cut off at any statement has done nothing, and the next one does all of it', async () => {
  const { pool } = await emptyDatabase();
  const there = async () => (await pool.query(`select 1 from pg_namespace where nspname = 'whizbang'`)).rowCount;
  // A little over two statements for each file; the last of them is the commit.
  for (let n = 2; n < 100; n += 7) {
    await expect(migrate({ database: failingAt(pool, n, 'cut') }), `at statement ${n}`).rejects.toThrow(
      /terminated|not queryable|ECONNRESET|cannot be reached/,
    );
    // The server notices by itself that the session has gone.
    await waitFor(async () => (await there()) === 0, { message: 'nothing to be there' });
  }
  expect((await migrate({ database: pool })).applied.length).toBeGreaterThan(20);
  await seeItWork(pool);
});

async function seeItWork(pool: pg.Pool): Promise<void> {
  const table = new WorkTable('outbox', pool);
  await table.store(['a1', 'a2']);
  expect(await table.claimLabels(me)).toEqual(['a1', 'a2']);
}
