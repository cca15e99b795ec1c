import { ServiceBusClient } from '@azure/service-bus';
import { type Logger, MessageFailureReason } from '@whizbang/core/transport';
import { classification } from './classification.js';
import { ServicebusError, classify, textOf } from './errors.js';
import { FailureLog } from './failure-log.js';
import type { ServicebusSettings } from './options.js';
import { destroySocket, onConnectionLost } from './sdk-internals.js';
import { Backoff, settledWithin, wait, within } from './wait.js';

// How long the broker may keep an accept open while no session has messages. Azure allows 65 s.
export const acceptTimeoutMs = 30_000;
// How long the broker has for an answer when it is asked whether it is there.
const checkMs = 3_000;
/** No entity of this name is needed: an answer, even that it is missing, shows that the broker is there and knows us. */
const probeEntity = 'whizbang-probe';

/** An open connection. A new client is made after each loss; nothing of the old one may be used with it. */
export interface LiveConnection {
  readonly client: ServiceBusClient;
  /** Aborts when the connection has ended. */
  readonly signal: AbortSignal;
  /** Set when the connection has ended. */
  readonly endedBy: Error | undefined;
  /** Resolves with the cause when the connection has ended. */
  readonly ended: Promise<Error>;
  /** Somebody got no answer: asks whether anybody is there, and ends the connection when nobody is. */
  check(): Promise<void>;
  /** Ends it. */
  end(cause: Error): void;
}

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
    await settledWithin(Promise.all([this.#running, ...this.#leftBehind]), ms);
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
      await wait(backoff.next(), signal);
    }
  }

  async #open(): Promise<LiveConnection> {
    const client = makeClient(
      this.#settings,
      this.#role === 'publishing' ? this.#settings.sendTimeoutMs : acceptTimeoutMs,
    );
    const giveUp = new AbortController();
    const abort = (): void => giveUp.abort();
    this.#stopping.signal.addEventListener('abort', abort);
    try {
      await within(probe(client, this.#settings, giveUp.signal), this.#settings.connectTimeoutMs, () => {
        return new ServicebusError(
          `no answer within ${this.#settings.connectTimeoutMs} ms`,
          classification.communication,
        );
      });
      this.#stopping.signal.throwIfAborted();
      return this.#watch(client);
    } catch (error) {
      giveUp.abort();
      this.#leave(client);
      throw error;
    } finally {
      this.#stopping.signal.removeEventListener('abort', abort);
    }
  }

  #watch(client: ServiceBusClient): LiveConnection {
    const end = new AbortController();
    const { promise: ended, resolve } = withResolver<Error>();
    let checking: Promise<void> | undefined;
    const live = {
      client,
      signal: end.signal,
      endedBy: undefined as Error | undefined,
      ended,
      check: (): Promise<void> => {
        checking ??= within(probe(client, this.#settings, end.signal), checkMs, () => {
          return new ServicebusError('the broker has stopped answering', classification.communication);
        })
          .catch((error: unknown) => live.end(error instanceof Error ? error : new Error(textOf(error))))
          .finally(() => (checking = undefined));
        return checking;
      },
      end: (cause: Error): void => {
        if (live.endedBy !== undefined) return;
        live.endedBy = cause;
        end.abort();
        resolve(cause);
        this.#leave(client);
      },
    };
    onConnectionLost(client, (cause) => {
      const sentence = cause === undefined ? 'the connection was lost' : `the connection was lost: ${textOf(cause)}`;
      live.end(new ServicebusError(sentence, classification.unreachable, { cause }));
    });
    return live;
  }

  /** Ends what is left of a client. Everybody who uses it has been told before. */
  #leave(client: ServiceBusClient): void {
    const leaving = (async () => {
      // Those who were told give back their links in this turn.
      await new Promise((resolve) => setImmediate(resolve));
      destroySocket(client);
      await settledWithin(client.close(), 250);
      // What was being opened in that moment, the SDK has opened on yet another connection.
      destroySocket(client);
    })().finally(() => this.#leftBehind.delete(leaving));
    this.#leftBehind.add(leaving);
  }
}

function makeClient(settings: ServicebusSettings, timeoutInMs: number): ServiceBusClient {
  const options = {
    // What is tried again, and when, is for the outbox to say.
    retryOptions: { maxRetries: 0, timeoutInMs },
    ...(settings.webSocket === undefined
      ? undefined
      : { webSocketOptions: { webSocket: settings.webSocket as new () => unknown } }),
  } as ConstructorParameters<typeof ServiceBusClient>[2];
  return settings.connectionString === undefined
    ? new ServiceBusClient(
        settings.host,
        settings.credential as ConstructorParameters<typeof ServiceBusClient>[1],
        options,
      )
    : new ServiceBusClient(settings.connectionString, options);
}

/** Connects and authenticates, by opening a link that need not come about. */
async function probe(client: ServiceBusClient, settings: ServicebusSettings, signal: AbortSignal): Promise<void> {
  const sender = client.createSender(settings.entityPath ?? probeEntity);
  try {
    await sender.createMessageBatch({ abortSignal: signal });
  } catch (error) {
    const found = classify(error);
    const answered = found === classification.entityNotFound || found === classification.entityDisabled;
    // The key is good, though not for this entity.
    const lacksClaim = found === classification.unauthorized && /claim/i.test(textOf(error));
    if (!answered && !lacksClaim) throw error;
  } finally {
    void settledWithin(sender.close(), 1000);
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

function withResolver<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => (resolve = done));
  return { promise, resolve };
}
