import type { Delivery, Logger, PublishOutcome, SubscriptionRequest, Transport } from '@whizbang/core/transport';
import { failureReasonName } from '@whizbang/core/transport';
import { type KafkaTransportOptions, createTransport } from '@whizbang/transport-kafka';
import { onTestFinished } from 'vitest';
import { defaultType } from '../conformance/messages.js';
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
const quick: KafkaTransportOptions = { reconnectDelayMs: 20, reconnectMaxDelayMs: 200 };

/** A transport that is closed at the end of the test. It is connecting, and need not have reached the broker. */
export async function connecting(url: string, options: KafkaTransportOptions = {}): Promise<Watched> {
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

export async function connected(url: string, options: KafkaTransportOptions = {}): Promise<Watched> {
  const watched = await connecting(url, options);
  await watched.isReady();
  return watched;
}

/** `confirmed`, `notAttempted`, `failed Throttled, retry`, `failed ValidationError`. */
export function outcomeText(outcome: PublishOutcome): string {
  if (outcome.kind !== 'failed') return outcome.kind;
  return `failed ${failureReasonName(outcome.reason)}${outcome.retryable ? ', retry' : ''}`;
}

export function request(
  service: string,
  destination: string,
  parts: Partial<SubscriptionRequest> = {},
): SubscriptionRequest {
  const bindings = [{ destination, messageTypes: [defaultType] }];
  return { service, bindings, ordered: true, maxBatch: 50, prefetch: 200, ...parts };
}

/** Resolves when there are `count`; more may come. */
export async function arrived(list: readonly unknown[], count: number): Promise<void> {
  await waitFor(() => list.length >= count, {
    message: `${count} arrivals (${list.length} so far)`,
    timeoutMs: 30_000,
  });
}

export const idOf = (delivery: Delivery): string | undefined => delivery.attributes['id'];
