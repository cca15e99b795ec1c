import pg from 'pg';
import { v4 } from 'uuid';
import type { Logger } from '../contract/logger.js';
import { cutConnection } from '../database/cut-connection.js';
import { keepAliveMs } from '../database/pool.js';
import { type SchemaName, wakeChannel } from '../database/schema-name.js';
import { maskSecrets } from '../errors/mask-secrets.js';
import { pause, settlesWithin } from '../runtime/clock.js';

export type DoorbellChannel = 'outbox' | 'inbox' | 'deadletter';

interface ListenerSettings {
  readonly connectionString: string | pg.ClientConfig;
  readonly schema: SchemaName;
  readonly logger: Logger;
  /** Called for a ring, and once for every channel when listening begins again: what was rung meanwhile is lost. */
  readonly onRing: (channel: DoorbellChannel) => void;
}

// A round trip over the listening connection proves that it hears; a connection that a middlebox dropped looks open.
const selfTestIntervalMs = 30_000;
const selfTestDeadlineMs = 3_000;
const connectDeadlineMs = 10_000;
const channels: readonly DoorbellChannel[] = ['outbox', 'inbox', 'deadletter'];

/**
 * The one connection of a process that LISTENs. It is only a hint-giver: while it is not healthy, workers poll tightly.
 * A supervisor proves it by sending itself a notification, and rebuilds it, with backoff, when it is lost or deaf.
 */
export class DoorbellListener {
  readonly #settings: ListenerSettings;
  readonly #stop = new AbortController();
  #healthy = false;
  #running: Promise<void> | undefined;
  #warned = false;

  constructor(settings: ListenerSettings) {
    this.#settings = settings;
  }

  /** True while notifications are known to arrive. */
  get healthy(): boolean {
    return this.#healthy;
  }

  start(): void {
    this.#running ??= this.#supervise();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #supervise(): Promise<void> {
    const { signal } = this.#stop;
    let delayMs = 100;
    while (!signal.aborted) {
      const lostAfterHealth = await this.#listenUntilLost();
      delayMs = lostAfterHealth ? 100 : Math.min(delayMs * 2, 30_000);
      await pause(delayMs, signal);
    }
  }

  /** Returns whether the connection had been healthy. */
  async #listenUntilLost(): Promise<boolean> {
    const { connectionString, schema, logger, onRing } = this.#settings;
    const client = new pg.Client({
      ...(typeof connectionString === 'string' ? { connectionString } : connectionString),
      application_name: 'whizbang-listener',
      connectionTimeoutMillis: connectDeadlineMs,
      query_timeout: selfTestDeadlineMs,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveMs,
    });
    const lost = new AbortController();
    const lose = (error?: Error) => lost.abort(error);
    client.on('error', lose);
    client.on('end', () => lose());
    this.#stop.signal.addEventListener('abort', () => lose(), { once: true, signal: lost.signal });

    const selfTestChannel = wakeChannel('selftest', schema);
    const channelByName = new Map(channels.map((channel) => [wakeChannel(channel, schema), channel]));
    let expected: { token: string; heard: () => void } | undefined;
    client.on('notification', (notification) => {
      const channel = channelByName.get(notification.channel);
      if (channel !== undefined) {
        onRing(channel);
      } else if (expected !== undefined && notification.payload === expected.token) {
        expected.heard();
      }
    });
    const proves = async (): Promise<boolean> => {
      const token = v4();
      const heard = new Promise<void>((resolve) => {
        expected = { token, heard: resolve };
      });
      await client.query('select pg_notify($1, $2)', [selfTestChannel, token]);
      return settlesWithin(heard, selfTestDeadlineMs);
    };

    try {
      await client.connect();
      for (const name of [...channelByName.keys(), selfTestChannel]) {
        await client.query(`listen ${pg.escapeIdentifier(name)}`);
      }
      if (!(await proves())) {
        throw new Error(
          'a notification sent to itself did not arrive; behind a pooler, set listenDatabase to a direct URL',
        );
      }
      this.#becomeHealthy();
      for (const channel of channels) {
        onRing(channel);
      }
      while (!lost.signal.aborted) {
        await pause(selfTestIntervalMs, lost.signal);
        if (!lost.signal.aborted && !(await proves())) {
          throw new Error('a notification sent to itself did not arrive any more');
        }
      }
    } catch (error) {
      lose(error instanceof Error ? error : new Error(String(error)));
    }
    const wasHealthy = this.#healthy;
    this.#becomeUnhealthy(lost.signal.reason);
    await this.#discard(client, logger);
    return wasHealthy;
  }

  #becomeHealthy(): void {
    this.#healthy = true;
    if (this.#warned) {
      this.#settings.logger.info({}, 'Notifications arrive again; workers sleep until they are rung');
      this.#warned = false;
    }
  }

  #becomeUnhealthy(cause: unknown): void {
    this.#healthy = false;
    // Workers must notice at once that nobody will ring them.
    for (const channel of channels) {
      this.#settings.onRing(channel);
    }
    if (!this.#stop.signal.aborted && !this.#warned) {
      this.#warned = true;
      const error =
        cause instanceof Error && cause.name !== 'AbortError' ? maskSecrets(cause.message) : 'the connection ended';
      this.#settings.logger.warn({ error }, 'Notifications do not arrive; workers poll tightly until they do');
    }
  }

  // `end` waits for the server; a black-holed one never answers, so the socket is cut after a moment.
  async #discard(client: pg.Client, logger: Logger): Promise<void> {
    const ended = client.end();
    ended.catch((error: unknown) => logger.debug({ error: String(error) }, 'Closing the listening connection failed'));
    if (!(await settlesWithin(ended, 1_000))) {
      cutConnection(client);
    }
  }
}
