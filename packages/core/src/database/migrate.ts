import pg from 'pg';
import { type Logger, silentLogger } from '../contract/logger.js';
import { SchemaError } from '../errors/whizbang-error.js';
import { libraryVersion } from '../options/library-version.js';
import { explainDatabaseError } from './database-error.js';
import { LockWait } from './lock-wait.js';
import { beginReadCommitted } from './read-committed.js';
import { type SchemaName, defaultSchema, inSchema, schemaName } from './schema-name.js';
import { type SqlFile, sqlFiles } from './sql.generated.js';

export interface MigrateOptions {
  /** PostgreSQL URL, or a pool of the user's, whose role may create tables and functions in the schema. */
  readonly database: string | pg.Pool;
  /** Default `whizbang`. Any name of up to 63 bytes. */
  readonly schema?: string;
  /**
   * How long to wait in all for other migrations, and for transactions that use the tables. A migration that falls silent
   * is ended by the server after as long. Default 300,000
   */
  readonly lockTimeoutMs?: number;
  /** Told who holds what is waited for. Default: silence. */
  readonly logger?: Logger;
}

export interface MigrateResult {
  /** What was applied, in order: `0001_initial`, `claim_orphaned_outbox`, …; empty when everything was in place. */
  readonly applied: readonly string[];
}

const defaultLockTimeoutMs = 300_000;

interface AppliedFile {
  name: string;
  kind: string;
  checksum: string;
  library_version: string;
}

/**
 * Creates or updates Whizbang's schema. Safe to call from any number of processes at once: they wait for an advisory lock,
 * everything happens in one transaction, and where nothing is to be done no lock is taken and no DDL is run. It gives way
 * to transactions that use the tables: those who write wait half a second behind it, and then it tries again.
 *
 * @throws SchemaError when the schema is newer than this library, or a migration that was applied has been changed since
 * @throws DatabaseUnavailableError when the database refuses us, or somebody holds what is needed for `lockTimeoutMs`
 */
export async function migrate(options: MigrateOptions): Promise<MigrateResult> {
  const schema = schemaName(options.schema ?? defaultSchema);
  const client =
    typeof options.database === 'string'
      ? new pg.Client({
          connectionString: options.database,
          connectionTimeoutMillis: 10_000,
          application_name: 'whizbang-migrate',
        })
      : undefined;
  // A connection that is lost between two statements fails the next one; the event alone must not end the process.
  client?.on('error', () => undefined);
  const wait = new LockWait(schema, options.lockTimeoutMs ?? defaultLockTimeoutMs, options.logger ?? silentLogger);
  try {
    await client?.connect();
    if (client !== undefined) {
      return { applied: await migrateOn(client, schema, wait) };
    }
    const connection = await (options.database as pg.Pool).connect();
    const ignore = (): void => undefined;
    connection.on('error', ignore);
    let broken = true;
    try {
      const applied = await migrateOn(connection, schema, wait);
      broken = false;
      return { applied };
    } finally {
      // What failed half-way may still be in its transaction; a pool must not hand that out.
      connection.off('error', ignore);
      connection.release(broken);
    }
  } catch (error) {
    throw explainDatabaseError(error, schema.name) ?? error;
  } finally {
    await client?.end();
  }
}

async function migrateOn(connection: pg.ClientBase, schema: SchemaName, wait: LockWait): Promise<string[]> {
  if (pendingFiles(await appliedFiles(connection, schema), schema).length === 0) {
    return [];
  }
  for (;;) {
    const applied = await tryToMigrate(connection, schema, wait);
    if (applied !== undefined) {
      return applied;
    }
    await wait.pause(connection);
  }
}

/** Returns `undefined` when somebody holds what it needs; nothing has changed then. */
async function tryToMigrate(
  connection: pg.ClientBase,
  schema: SchemaName,
  wait: LockWait,
): Promise<string[] | undefined> {
  // Whatever the default here is: what another process did while this one waited for the lock must be seen.
  await connection.query(beginReadCommitted());
  try {
    if (!(await wait.lock(connection))) {
      await connection.query('rollback');
      return undefined;
    }
    // Looked at again: another process may have done all of it while this one waited for the lock.
    const pending = pendingFiles(await appliedFiles(connection, schema), schema);
    await createFoundation(connection, schema);
    for (const file of pending) {
      await applyFile(connection, file, schema);
    }
    await connection.query('commit');
    return pending.map((file) => file.name);
  } catch (error) {
    await connection.query('rollback').catch(() => undefined);
    if (wait.isHeldUp(error)) {
      return undefined;
    }
    throw error;
  }
}

/** What is recorded as applied; empty when the schema or its table is not there yet. */
export async function appliedFiles(connection: pg.ClientBase | pg.Pool, schema: SchemaName): Promise<AppliedFile[]> {
  // Not to_regclass: it answers from the session's cache, which does not know yet what was committed while this session
  // waited for the advisory lock. A query of the catalog does, and brings the cache up to date for the query after it.
  const { rowCount } = await connection.query(
    `select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = $1 and c.relname = 'wh_schema_migrations'`,
    [schema.name],
  );
  if (rowCount === 0) {
    return [];
  }
  const { rows } = await connection.query<AppliedFile>(
    `select name, kind, checksum, library_version from ${schema.prefix}wh_schema_migrations`,
  );
  return rows;
}

/** The files still to be applied, in order. */
function pendingFiles(applied: readonly AppliedFile[], schema: SchemaName): SqlFile[] {
  const byKey = new Map(applied.map((file) => [`${file.kind}/${file.name}`, file]));
  const newer = applied.find((file) => compareVersions(file.library_version, libraryVersion) > 0);
  if (newer !== undefined) {
    throw new SchemaError(
      'WHIZBANG_SCHEMA_NEWER',
      `Schema '${schema.name}' was migrated by version ${newer.library_version}; this is version ${libraryVersion}. Use a library at least as new as the schema.`,
    );
  }
  return sqlFiles.filter((file) => {
    const before = byKey.get(`${file.kind}/${file.name}`);
    if (before !== undefined && before.checksum !== file.checksum && file.kind === 'migration') {
      throw new SchemaError(
        'WHIZBANG_SCHEMA_CHANGED',
        `Migration ${file.name} was applied to schema '${schema.name}' with other contents. Restore the published library; migrations are never edited.`,
      );
    }
    return before?.checksum !== file.checksum;
  });
}

async function createFoundation(connection: pg.ClientBase, schema: SchemaName): Promise<void> {
  // Asked first: `create schema if not exists` needs the right to create schemas even when it has nothing to do.
  const { rowCount } = await connection.query('select 1 from pg_namespace where nspname = $1', [schema.name]);
  if (rowCount === 0) {
    await connection.query(`create schema ${schema.prefix.slice(0, -1)}`);
  }
  await connection.query(
    `create table if not exists ${schema.prefix}wh_schema_migrations (
       kind text not null, name text not null, checksum text not null, library_version text not null,
       applied_at timestamptz not null default now(), primary key (kind, name))`,
  );
  // Functions refer to each other; the order of their files is alphabetical.
  await connection.query('set local check_function_bodies = off');
}

async function applyFile(connection: pg.ClientBase, file: SqlFile, schema: SchemaName): Promise<void> {
  if (file.kind === 'function') {
    await dropOverloads(connection, file, schema);
  }
  await connection.query(inSchema(file.text, schema));
  await connection.query(
    `insert into ${schema.prefix}wh_schema_migrations (kind, name, checksum, library_version) values ($1, $2, $3, $4)
     on conflict (kind, name) do update
     set checksum = excluded.checksum, library_version = excluded.library_version, applied_at = now()`,
    [file.kind, file.name, file.checksum, libraryVersion],
  );
}

// `create or replace` cannot change a function's parameters or result; what the file creates, it replaces.
async function dropOverloads(connection: pg.ClientBase, file: SqlFile, schema: SchemaName): Promise<void> {
  const { rows } = await connection.query<{ signature: string }>(
    `select p.oid::regprocedure::text as signature from pg_proc p
     join pg_namespace n on n.oid = p.pronamespace where n.nspname = $1 and p.proname = $2`,
    [schema.name, file.name],
  );
  for (const { signature } of rows) {
    await connection.query(`drop function ${signature}`);
  }
}

/** Below zero when `a` is the older of two `major.minor.patch` versions. */
export function compareVersions(a: string, b: string): number {
  const parts = (version: string) => version.split(/[.+-]/).slice(0, 3).map(Number);
  const [left, right] = [parts(a), parts(b)];
  for (let index = 0; index < 3; index += 1) {
    const difference = (left[index] ?? 0) - (right[index] ?? 0);
    if (difference !== 0) {
      return difference;
    }
  }
  return 0;
}
