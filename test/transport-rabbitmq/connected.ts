import type { Delivery, Logger, PublishOutcome, Transport } from '@whizbang/core/transport';
import { failureReasonName } from '@whizbang/core/transport';
import { type RabbitmqTransportOptions, createTransport } from '@whizbang/transport-rabbitmq';
import { type Channel, type ChannelModel, connect } from 'amqplib';
import { onTestFinished } from 'vitest';
import { waitFor } from '../fixtures/index.js';

export const never: AbortSignal = new AbortController().signal;

export interface Watched {
  readonly transport: Transport;
  /** Every change of `ready()`, with the text of the cause. */
  readonly readiness: readonly (readonly [ready: boolean, cause: string | undefined])[];
  /** Everything logged above debug level, as `level: sentence`. */
  readonly log: readonly string[];
  readonly isReady: (ready?: boolean) => Promise<unknown>;
}

// Outages are short here, so waiting long to reconnect would only be waiting.
const quick: RabbitmqTransportOptions = { reconnectDelayMs: 20, reconnectMaxDelayMs: 200 };

/** A transport that is closed at the end of the test. It is connecting, and need not have reached the broker. */
export async function connecting(url: string, options: RabbitmqTransportOptions = {}): Promise<Watched> {
  const readiness: [boolean, string | undefined][] = [];
  const log: string[] = [];
  const say =
    (level: string) =>
    (_: object, sentence: string): void =>
      void log.push(`${level}: ${sentence}`);
  const logger: Logger = { debug: () => undefined, info: say('info'), warn: say('warn'), error: say('error') };
  const transport = createTransport(url, { ...quick, ...options });
  onTestFinished(() => transport.close());
  await transport.connect({ logger, onReadyChange: (ready, cause) => void readiness.push([ready, cause?.message]) });
  return {
    transport,
    readiness,
    log,
    isReady: (ready = true) =>
      waitFor(() => transport.ready() === ready, { message: `ready() to be ${ready}`, timeoutMs: 30_000 }),
  };
}

export async function connected(url: string, options: RabbitmqTransportOptions = {}): Promise<Watched> {
  const watched = await connecting(url, options);
  await watched.isReady();
  return watched;
}

/** `confirmed`, `notAttempted`, `failed Throttled, retry`, `failed ValidationError`. */
export function outcomeText(outcome: PublishOutcome): string {
  if (outcome.kind !== 'failed') return outcome.kind;
  return `failed ${failureReasonName(outcome.reason)}${outcome.retryable ? ', retry' : ''}`;
}

/** A plain connection beside the transport; gone at the end of the test. */
export async function rawChannel(url: string): Promise<Channel> {
  const model: ChannelModel = await connect(url);
  model.on('error', () => undefined);
  onTestFinished(() => model.close().catch(() => undefined));
  const channel = await model.createChannel();
  channel.on('error', () => undefined);
  return channel;
}

/** The ids in a queue, in its order. Takes them out. */
export async function drain(channel: Channel, queue: string): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const message = await channel.get(queue, { noAck: true });
    if (message === false) return ids;
    ids.push(String(message.properties.messageId));
  }
}

/** Waits for an assertion about deliveries. */
export async function received(deliveries: readonly Delivery[], count: number): Promise<void> {
  await waitFor(() => deliveries.length >= count, {
    message: `${count} deliveries (${deliveries.length} so far)`,
    timeoutMs: 30_000,
  });
}

export const idOf = (delivery: Delivery): string | undefined => delivery.attributes['id'];

/** Each id once, where it came first: what the inbox makes of redeliveries. */
export const firstOfEach = (ids: readonly (string | undefined)[]): (string | undefined)[] => [...new Set(ids)];
