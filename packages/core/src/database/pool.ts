import pg from 'pg';
import type { Logger } from '../contract/logger.js';
import { maskSecrets } from '../errors/mask-secrets.js';
import { settlesWithin } from '../runtime/clock.js';
import { cutConnection } from './cut-connection.js';

/** A pool and whether it is ours to close. */
export interface Database {
  readonly pool: pg.Pool;
  readonly owned: boolean;
  /** Connections the pool may open. */
  readonly size: number;
  close(): Promise<void>;
}

const farewellMs = 500;
/** When a silent connection is first asked for a sign of life. The system's own default is two hours. */
export const keepAliveMs = 10_000;

// A connection that is cut emits an error, and one that nobody listens to ends the process. pg-pool listens while a client
// is idle; between its handing out a client and the promise of `connect()` being noticed, nobody does. What was under way
// on the client rejects all the same.
const ignoreError = (): void => undefined;

function listenForErrors(client: pg.PoolClient): void {
  if (!client.listeners('error').includes(ignoreError)) {
    client.on('error', ignoreError);
  }
}

/** The connections of a pool, from their beginning on; the pool itself tells of them only once they are established. */
class Connections {
  readonly Client: typeof pg.Client;
  readonly #open = new Set<pg.Client>();
  #allEnded = (): void => undefined;

  constructor() {
    const begun = (client: pg.Client): void => {
      this.#open.add(client);
      client.once('end', () => {
        this.#open.delete(client);
        if (this.#open.size === 0) {
          this.#allEnded();
        }
      });
    };
    this.Client = class extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        super(config);
        begun(this);
      }
    };
  }

  /** To be asked once no new ones begin. */
  async allEnded(): Promise<void> {
    if (this.#open.size > 0) {
      await new Promise<void>((resolve) => {
        this.#allEnded = resolve;
      });
    }
  }

  cut(): void {
    this.#open.forEach(cutConnection);
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
  const connections = new Connections();
  const pool = new pg.Pool({
    Client: connections.Client,
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
  const close = async (): Promise<void> => {
    const ended = pool.end();
    // The last may be in the hands of a handler that does not listen, connect to a server that does not answer, or take leave
    // of one.
    if (!(await settlesWithin(connections.allEnded(), farewellMs))) {
      connections.cut();
    }
    await ended;
  };
  return { pool, owned: true, size: settings.maxConnections, close };
}
