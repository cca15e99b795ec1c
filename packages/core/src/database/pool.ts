import pg from 'pg';
import type { Logger } from '../contract/logger.js';
import { maskSecrets } from '../errors/mask-secrets.js';
import { settlesWithin } from '../runtime/clock.js';
import { cutConnection } from './cut-connection.js';

const farewellMs = 500;

/** A pool and whether it is ours to close. */
export interface Database {
  readonly pool: pg.Pool;
  readonly owned: boolean;
  /** Connections the pool may open. */
  readonly size: number;
  close(): Promise<void>;
}

// The system's own default is two hours.
const keepAliveMs = 10_000;

// A connection that is cut emits an error, and one that nobody listens to ends the process. pg-pool listens while a client
// is idle; between its handing out a client and the promise of `connect()` being noticed, nobody does. What was under way
// on the client rejects all the same.
const ignoreError = (): void => undefined;

function listenForErrors(client: pg.PoolClient): void {
  if (!client.listeners('error').includes(ignoreError)) {
    client.on('error', ignoreError);
  }
}

/**
 * Opens a pool for a URL, or takes the user's pool, which is used and never closed. Listeners for errors go on both: a
 * connection that the server cuts must not end the process.
 */
export function openDatabase(
  database: string | pg.Pool,
  settings: { applicationName: string; maxConnections: number; logger: Logger },
): Database {
  const onError = (error: Error) => {
    settings.logger.warn({ error: maskSecrets(error.message) }, 'An idle database connection was lost');
  };
  if (typeof database !== 'string') {
    database.on('error', onError);
    database.on('acquire', listenForErrors);
    if (!database.options.connectionTimeoutMillis) {
      settings.logger.warn(
        {},
        'The pool has no connectionTimeoutMillis: a server that accepts connections and stays silent will use it up, for good. Give it one, for example 10000',
      );
    }
    return {
      pool: database,
      owned: false,
      size: database.options.max ?? 10,
      close: () => {
        database.off('error', onError);
        database.off('acquire', listenForErrors);
        return Promise.resolve();
      },
    };
  }
  const pool = new pg.Pool({
    connectionString: database,
    max: settings.maxConnections,
    application_name: settings.applicationName,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    // A program that only publishes, and forgets to stop, ends when it is done.
    allowExitOnIdle: true,
    keepAliveInitialDelayMillis: keepAliveMs,
  });
  pool.on('error', onError);
  pool.on('acquire', listenForErrors);
  const clients = new Set<pg.PoolClient>();
  pool.on('connect', (client) => clients.add(client));
  pool.on('remove', (client) => clients.delete(client));
  const close = async (): Promise<void> => {
    const ended = pool.end();
    // Its last client may be in the hands of a handler that does not listen, or wait for a server that does not answer.
    if (!(await settlesWithin(ended, farewellMs))) {
      clients.forEach(cutConnection);
    }
    await ended;
  };
  return { pool, owned: true, size: settings.maxConnections, close };
}
