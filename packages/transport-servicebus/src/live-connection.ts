import { ServiceBusClient } from '@azure/service-bus';
import { setMaxListeners } from 'node:events';
import { settlesWithin, within } from '@whizbang/core/transport';
import { classification } from './classification.js';
import { ServicebusError, classify, textOf } from './errors.js';
import type { ServicebusSettings } from './options.js';
import { destroySocket, onConnectionLost, sendWithoutDelay } from './sdk-internals.js';

/** How long the broker may keep an accept open while no session has messages. Azure allows 65 s. */
export const acceptTimeoutMs = 30_000;
// How long the broker has for an answer when it is asked whether it is there.
const checkMs = 3_000;
// No entity of this name is needed: an answer, even that it is missing, shows that the broker is there and knows us.
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

/**
 * Connects and authenticates.
 * @param timeoutInMs How long the broker has for answers.
 * @param onLeft Called with what is still to be waited for when the connection, or the attempt at one, has ended.
 */
export async function openConnection(
  settings: ServicebusSettings,
  timeoutInMs: number,
  signal: AbortSignal,
  onLeft: (leaving: Promise<void>) => void,
): Promise<LiveConnection> {
  const client = makeClient(settings, timeoutInMs);
  const giveUp = new AbortController();
  const abort = (): void => giveUp.abort();
  signal.addEventListener('abort', abort);
  try {
    const { connectTimeoutMs } = settings;
    await within(probe(client, settings, giveUp.signal), connectTimeoutMs, () => {
      return new ServicebusError(`no answer within ${connectTimeoutMs} ms`, classification.communication);
    });
    signal.throwIfAborted();
    sendWithoutDelay(client);
    return watch(client, settings, onLeft);
  } catch (error) {
    giveUp.abort();
    onLeft(leave(client));
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function watch(
  client: ServiceBusClient,
  settings: ServicebusSettings,
  onLeft: (leaving: Promise<void>) => void,
): LiveConnection {
  const end = new AbortController();
  // Every link and receiver on the connection listens to it.
  setMaxListeners(0, end.signal);
  const { promise: ended, resolve } = withResolver<Error>();
  let checking: Promise<void> | undefined;
  const live = {
    client,
    signal: end.signal,
    endedBy: undefined as Error | undefined,
    ended,
    check: (): Promise<void> => {
      checking ??= within(probe(client, settings, end.signal), checkMs, () => {
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
      onLeft(leave(client));
    },
  };
  onConnectionLost(client, (cause) => {
    const sentence = cause === undefined ? 'the connection was lost' : `the connection was lost: ${textOf(cause)}`;
    live.end(new ServicebusError(sentence, classification.unreachable, { cause }));
  });
  return live;
}

/** Ends what is left of a client. Everybody who uses it has been told before. */
async function leave(client: ServiceBusClient): Promise<void> {
  // Those who were told give back their links in this turn.
  await new Promise((resolve) => setImmediate(resolve));
  destroySocket(client);
  await settlesWithin(client.close(), 250);
  // What was being opened in that moment, the SDK has opened on yet another connection.
  destroySocket(client);
}

function makeClient(settings: ServicebusSettings, timeoutInMs: number): ServiceBusClient {
  const options = {
    // What is tried again, and when, is for the outbox to say. A receiver whose link is gone pauses for so long all the same,
    // before it finds that it was closed.
    retryOptions: { maxRetries: 0, timeoutInMs, retryDelayInMs: 500 },
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
    void settlesWithin(sender.close(), 1000);
  }
}

function withResolver<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => (resolve = done));
  return { promise, resolve };
}
