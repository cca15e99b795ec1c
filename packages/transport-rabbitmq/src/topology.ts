import type { SubscriptionRequest } from '@whizbang/core/transport';
import type { Channel } from 'amqplib';
import type { LiveConnection } from './connection.js';
import { byName, byReplyCode } from './classification.js';
import { RabbitmqError, classify, replyCode } from './errors.js';
import type { RabbitmqSettings } from './options.js';

/**
 * Runs one declaration on a channel of its own: a refusal closes the channel it was made on, and must not take
 * messages with it.
 */
async function onOwnChannel<T>(live: LiveConnection, work: (channel: Channel) => Promise<T>): Promise<T> {
  const channel = await live.model.createChannel();
  channel.on('error', () => undefined);
  const result = await work(channel);
  // The client leaves the call unanswered when the connection ends in this moment.
  await Promise.race([channel.close(), live.ended]);
  return result;
}

/** A durable topic exchange, created or, where creating is not wanted or not allowed, checked. */
export async function ensureExchange(
  live: LiveConnection,
  exchange: string,
  settings: Pick<RabbitmqSettings, 'declare'>,
): Promise<void> {
  const bytes = Buffer.byteLength(exchange);
  if (bytes < 1 || bytes > 255) {
    throw new RabbitmqError(
      `the name of a destination must have 1 to 255 bytes, and "${exchange.slice(0, 40)}…" has ${bytes}`,
      byName.wrongField,
    );
  }
  const check = (): Promise<unknown> => onOwnChannel(live, (channel) => channel.checkExchange(exchange));
  await createOrCheck(`exchange "${exchange}"`, settings.declare, check, () =>
    onOwnChannel(live, (channel) => channel.assertExchange(exchange, 'topic', { durable: true })),
  );
}

/** Exchanges, queue and bindings of a subscription. */
export async function ensureSubscription(
  live: LiveConnection,
  request: SubscriptionRequest,
  settings: RabbitmqSettings,
): Promise<void> {
  for (const { destination } of request.bindings) await ensureExchange(live, destination, settings);
  await ensureQueue(live, request, settings);
  if (!settings.declare) return;
  try {
    await onOwnChannel(live, (channel) =>
      Promise.all(
        request.bindings.flatMap(({ destination, messageTypes }) =>
          messageTypes.map((type) => channel.bindQueue(request.service, destination, type)),
        ),
      ),
    );
  } catch (error) {
    throw topologyError(`queue "${request.service}" cannot be bound`, error);
  }
}

async function ensureQueue(
  live: LiveConnection,
  { service, ordered }: SubscriptionRequest,
  settings: RabbitmqSettings,
): Promise<void> {
  const declare = (type: 'quorum' | 'classic') => (): Promise<unknown> =>
    onOwnChannel(live, (channel) =>
      channel.assertQueue(service, { durable: true, arguments: queueArguments(type, ordered) }),
    );
  const check = (): Promise<unknown> => onOwnChannel(live, (channel) => channel.checkQueue(service));
  const what = `queue "${service}"`;
  // Quorum queues came with 3.8.
  const wanted = settings.queueType ?? (versionAtLeast(live.serverVersion, 3, 8) ? 'quorum' : 'classic');
  try {
    await createOrCheck(what, settings.declare, check, declare(wanted));
  } catch (error) {
    if (settings.queueType !== undefined || !refusesQueueType(error)) throw error;
    await createOrCheck(what, settings.declare, check, declare('classic'));
  }
}

/**
 * Arguments are compared when a queue is declared again, so they must be the same on every version of the broker.
 * From 4.0 on a quorum queue without a delivery limit drops a message after 20 deliveries; -1 lifts that there, but 3.x
 * takes -1 for a limit below zero. The largest number both can hold means "never" to both.
 */
export function queueArguments(type: 'quorum' | 'classic', ordered: boolean): Record<string, unknown> {
  return {
    'x-queue-type': type,
    ...(type === 'quorum' ? { 'x-delivery-limit': 2_147_483_647 } : undefined),
    ...(ordered ? { 'x-single-active-consumer': true } : undefined),
  };
}

async function createOrCheck(
  what: string,
  declare: boolean,
  check: () => Promise<unknown>,
  create: () => Promise<unknown>,
): Promise<void> {
  if (declare) {
    try {
      await create();
      return;
    } catch (error) {
      // Without the permission to configure, what is there already may be used all the same.
      if (replyCode(error) !== 403) throw topologyError(`${what} cannot be created`, error);
    }
  }
  try {
    await check();
  } catch (error) {
    if (replyCode(error) !== 404) throw topologyError(`${what} cannot be used`, error);
    if (!declare) throw topologyError(`${what} is missing, and the option declare is false`, error);
    throw new RabbitmqError(`${what} is missing, and this user may not create it`, byReplyCode[403], { cause: error });
  }
}

function topologyError(sentence: string, error: unknown): Error {
  const code = replyCode(error);
  // Not an answer of the broker but a lost connection: no statement about the topology.
  if (code === undefined || !(error instanceof Error)) return error instanceof Error ? error : new Error(String(error));
  const brokerText = /with message "(.*)"$/s.exec(error.message)?.[1] ?? error.message;
  const hint = brokerText.includes('inequivalent arg')
    ? '. It exists with other properties: delete it once it is empty, or use it as it is with the option declare=false' +
      (brokerText.includes('x-queue-type') ? ', or set queueType to what it is' : '')
    : '';
  return new RabbitmqError(`${sentence}: ${brokerText}${hint}`, classify(error), { cause: error });
}

function refusesQueueType(error: unknown): boolean {
  const { cause } = error as { cause?: unknown };
  return (
    replyCode(cause) === 540 ||
    (cause instanceof Error && /invalid arg 'x-queue-type'|quorum_queue.*(not|dis)/i.test(cause.message))
  );
}

/** Compares `3.10.8` with a major and minor version. Unreadable versions count as new. */
export function versionAtLeast(version: string, major: number, minor: number): boolean {
  const parts = /^(\d+)\.(\d+)/.exec(version);
  if (parts === null) return true;
  const [own, ownMinor] = [Number(parts[1]), Number(parts[2])];
  return own > major || (own === major && ownMinor >= minor);
}
