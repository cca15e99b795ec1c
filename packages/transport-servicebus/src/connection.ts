import { Backoff, FailureLog, type Logger, MessageFailureReason, pause, settlesWithin } from '@whizbang/core/transport';
import { ServicebusError, classify, textOf } from './errors.js';
import { type LiveConnection, acceptTimeoutMs, openConnection } from './live-connection.js';
import type { ServicebusSettings } from './options.js';

export interface ConnectionListener {
  up(connection: LiveConnection): void;
  /** The connection was lost, or an attempt to make one failed. */
  down(cause: Error): void;
}

/**
 * Keeps one connection to the namespace: makes it again after every loss, with backoff and without end, until `close`.
 * The SDK's own reconnecting is not used: it forgets sends that were under way, and can hang for ever on closing links of
 * a connection that is gone.
 */
export class ConnectionSupervisor {
  readonly #settings: ServicebusSettings;
  readonly #role: 'publishing' | 'receiving';
  readonly #listener: ConnectionListener;
  readonly #log: FailureLog;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  #current: LiveConnection | undefined;
  #running: Promise<void> | undefined;
  readonly #leftBehind = new Set<Promise<void>>();

  constructor(
    settings: ServicebusSettings,
    role: 'publishing' | 'receiving',
    listener: ConnectionListener,
    logger: Logger,
  ) {
    this.#settings = settings;
    this.#role = role;
    this.#listener = listener;
    this.#logger = logger;
    this.#log = new FailureLog(logger, `the connection to Service Bus at ${settings.host} for ${role}`);
  }

  /** Begins connecting. Calling it again does nothing. */
  start(): void {
    this.#running ??= this.#keepConnected();
  }

  /** Ends the connection, or the attempt at one, within `ms`. */
  async close(ms: number): Promise<void> {
    this.#stopping.abort();
    this.#current?.end(new Error('closed by this side'));
    await settlesWithin(Promise.all([this.#running, ...this.#leftBehind]), ms);
  }

  async #keepConnected(): Promise<void> {
    const { signal } = this.#stopping;
    const backoff = new Backoff(this.#settings.reconnectDelayMs, this.#settings.reconnectMaxDelayMs);
    while (!signal.aborted) {
      try {
        const live = await this.#open();
        this.#current = live;
        const openedAt = performance.now();
        this.#log.succeeded();
        this.#logger.debug({}, `connected to Service Bus for ${this.#role}`);
        this.#listener.up(live);
        const cause = await live.ended;
        this.#current = undefined;
        if (signal.aborted) return;
        // Azure ends connections that nothing has happened on for minutes.
        if (isIdleEnd(cause)) continue;
        // A broker that accepts and drops connections must not be called at full speed.
        if (performance.now() - openedAt > this.#settings.reconnectMaxDelayMs) backoff.reset();
        this.#log.failed(textOf(cause));
        this.#listener.down(cause);
      } catch (error) {
        if (signal.aborted) return;
        const sentence = explainConnectFailure(error, this.#settings);
        this.#log.failed(sentence);
        this.#listener.down(new ServicebusError(sentence, classify(error), { cause: error }));
      }
      await pause(backoff.next(), signal);
    }
  }

  #open(): Promise<LiveConnection> {
    const timeoutInMs = this.#role === 'publishing' ? this.#settings.sendTimeoutMs : acceptTimeoutMs;
    return openConnection(this.#settings, timeoutInMs, this.#stopping.signal, (leaving) => {
      this.#leftBehind.add(leaving);
      void leaving.finally(() => this.#leftBehind.delete(leaving));
    });
  }
}

function isIdleEnd(cause: Error): boolean {
  return /inactive for more than|idle for more than/i.test(textOf(cause));
}

/** One sentence for the log about why connecting failed, with what to look at. */
function explainConnectFailure(error: unknown, settings: ServicebusSettings): string {
  const text = textOf(error);
  if (classify(error).reason !== MessageFailureReason.SecurityContextEstablishmentFailure) return text;
  return settings.connectionString === undefined
    ? `the credential was refused: ${text}`
    : `the shared access key was refused (name or key wrong, or regenerated): ${text}`;
}
