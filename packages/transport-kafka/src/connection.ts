import { Backoff, FailureLog, type Logger, pause } from '@whizbang/core/transport';
import { KafkaError, conditionOf, messageOf } from './errors.js';
import { KafkaClient } from './kafka-client.js';
import type { KafkaSettings } from './options.js';

// An idle connection is asked this often whether anybody is there, and given this long to answer.
const probeEveryMs = 3000;
const probeAnswerMs = 3000;

export interface ConnectionListener {
  up(client: KafkaClient): void;
  /** The cluster was lost, or an attempt to reach it failed. */
  down(cause: Error): void;
}

/** Keeps a client connected to the cluster: makes a new one after every loss, with backoff and without end, until `close`. */
export class ConnectionSupervisor {
  readonly #settings: KafkaSettings;
  readonly #listener: ConnectionListener;
  readonly #logger: Logger;
  readonly #log: FailureLog;
  readonly #stopping = new AbortController();
  #current: KafkaClient | undefined;
  #running: Promise<void> | undefined;

  constructor(settings: KafkaSettings, listener: ConnectionListener, logger: Logger) {
    this.#settings = settings;
    this.#listener = listener;
    this.#logger = logger;
    this.#log = new FailureLog(logger, `the connection to Kafka at ${settings.brokers.join(',')}`);
  }

  /** Begins connecting. Calling it again does nothing. */
  start(): void {
    this.#running ??= this.#keepConnected();
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#current?.close();
    await this.#running;
  }

  async #keepConnected(): Promise<void> {
    const { signal } = this.#stopping;
    const backoff = new Backoff(this.#settings.reconnectDelayMs, this.#settings.reconnectMaxDelayMs);
    while (!signal.aborted) {
      const client = new KafkaClient(this.#settings, this.#logger);
      this.#current = client;
      try {
        await client.connect();
        if (signal.aborted) return;
        const openedAt = performance.now();
        this.#log.succeeded();
        this.#logger.debug({}, 'connected to Kafka');
        this.#listener.up(client);
        const cause = await this.#untilLost(client);
        if (signal.aborted) return;
        // A broker that accepts and drops connections must not be called at full speed.
        if (performance.now() - openedAt > this.#settings.reconnectMaxDelayMs) backoff.reset();
        this.#report(cause);
      } catch (error) {
        if (signal.aborted) return;
        if (mendedByPeopleOnly(error)) backoff.jumpToLongest();
        this.#report(error);
      } finally {
        await client.close();
      }
      await pause(backoff.next(), signal);
    }
  }

  #report(error: unknown): void {
    const condition = conditionOf(error);
    const sentence = condition === 'credentialsRefused' ? 'user name or password is wrong' : messageOf(error);
    this.#log.failed(sentence);
    this.#listener.down(new KafkaError(sentence, condition, { cause: error }));
  }

  /** Requests have deadlines of their own; while there are none, this finds out that the network has gone silently. */
  async #untilLost(client: KafkaClient): Promise<Error> {
    const lost = new AbortController();
    void client.lost.then(() => lost.abort());
    while (client.endedBy === undefined) {
      await pause(probeEveryMs, lost.signal);
      if (client.endedBy !== undefined || client.inFlight > 0) continue;
      await client.ping(probeAnswerMs).catch((error: unknown) => client.abandon(error as Error));
    }
    return client.lost;
  }
}

function mendedByPeopleOnly(error: unknown): boolean {
  return ['credentialsRefused', 'saslMechanismRefused', 'tlsRefused', 'incompatibleBroker'].includes(
    conditionOf(error),
  );
}
