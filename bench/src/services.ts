import { type Whizbang, createWhizbang, migrate } from '@whizbang/core';
import {
  type PostgresSettings,
  createTopics,
  startKafka,
  startPostgres,
  startRabbitmq,
  waitFor,
} from '@whizbang/test/fixtures';
import { connect } from 'amqplib';
import pg from 'pg';

/** As a server that logical replication is used on would be set; fsync and commits as by default. */
export const peersPostgres: PostgresSettings = { shared_buffers: '1GB', max_wal_size: '4GB', wal_level: 'logical' };

/**
 * A Postgres with its default durability, a broker where one is wanted, and what was opened on them, all ended with the
 * bench.
 */
export class BenchServices implements AsyncDisposable {
  readonly #toClose: (() => Promise<unknown>)[] = [];
  readonly #settings: PostgresSettings;
  readonly versions: Record<string, string> = {};
  #postgresUrl = '';
  #createDatabase: (() => Promise<string>) | undefined;

  /** @param settings - of the Postgres, on top of its defaults */
  constructor(settings: PostgresSettings = {}) {
    this.#settings = settings;
  }

  /** For what else has to be closed; the last comes first. */
  atEnd(close: () => Promise<unknown>): void {
    this.#toClose.push(close);
  }

  /** A migrated database of its own. */
  async database(): Promise<string> {
    const url = await this.emptyDatabase();
    await migrate({ database: url });
    return url;
  }

  async emptyDatabase(): Promise<string> {
    if (this.#createDatabase === undefined) {
      const postgres = await startPostgres({ private: true, settings: this.#settings });
      this.atEnd(() => postgres.stop());
      this.#postgresUrl = postgres.url;
      this.#createDatabase = async () => (await postgres.createDatabase()).url;
      const pool = this.pool(postgres.url, 1);
      const { rows } = await pool.query<{ server_version: string }>('show server_version');
      this.versions['PostgreSQL'] = rows[0]?.server_version ?? '';
    }
    return this.#createDatabase();
  }

  get postgresUrl(): string {
    return this.#postgresUrl;
  }

  async broker(): Promise<string> {
    const rabbitmq = await startRabbitmq({ private: true });
    this.atEnd(() => rabbitmq.stop());
    const model = await connect(rabbitmq.url);
    this.versions['RabbitMQ'] = String(model.connection.serverProperties.version);
    await model.close();
    return rabbitmq.url;
  }

  async kafka(topics: readonly string[], partitions: number): Promise<string> {
    const kafka = await startKafka({ private: true });
    this.atEnd(() => kafka.stop());
    await createTopics(kafka.url, topics, partitions);
    return kafka.url;
  }

  pool(connectionString: string, max: number): pg.Pool {
    const pool = new pg.Pool({ connectionString, max });
    pool.on('error', () => undefined);
    pool.on('connect', (client) => client.on('error', () => undefined));
    this.atEnd(() => pool.end());
    return pool;
  }

  async service(options: Parameters<typeof createWhizbang>[0]): Promise<Whizbang> {
    const whizbang = await createWhizbang(options);
    this.atEnd(() => whizbang.stop());
    return whizbang;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const close of this.#toClose.splice(0).toReversed()) await close();
  }
}

const publishersAndDispatchers = "select from whizbang.wh_doorbells where channel in ('outbox', 'inbox')";

/** So many workers sleep in a database: the system is idle. */
export async function untilAsleep(pool: pg.Pool, workers: number): Promise<void> {
  await waitFor(async () => (await pool.query(publishersAndDispatchers)).rowCount === workers, {
    message: `${workers} workers asleep`,
    timeoutMs: 60_000,
  });
}
