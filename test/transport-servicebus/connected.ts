import {
  type Delivery,
  type DeliveryHandler,
  type Logger,
  type PublishOutcome,
  type SubscriptionRequest,
  type Transport,
  type TransportSubscription,
  failureReasonName,
} from '@whizbang/core/transport';
import { type ServicebusTransportOptions, createTransport } from '@whizbang/transport-servicebus';
import { onTestFinished } from 'vitest';
import { defaultType } from '../conformance/messages.js';
import { waitFor } from '../fixtures/index.js';
import type { ServicebusStandIn } from '../fixtures/servicebus/stand-in/stand-in.js';

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
const quick: ServicebusTransportOptions = { reconnectDelayMs: 20, reconnectMaxDelayMs: 200 };

type Place = Pick<ServicebusStandIn, 'connectionString' | 'managementEndpoint'>;

/** A transport that is closed at the end of the test. It is connecting, and need not have reached the broker. */
export async function connecting(
  { connectionString, managementEndpoint }: Place,
  options: ServicebusTransportOptions = {},
): Promise<Watched> {
  const readiness: [boolean, string | undefined][] = [];
  const log: string[] = [];
  const say =
    (level: string) =>
    (_: object, sentence: string): void =>
      void log.push(`${level}: ${sentence}`);
  const logger: Logger = { debug: () => undefined, info: say('info'), warn: say('warn'), error: say('error') };
  const transport = createTransport(connectionString, {
    administrationEndpoint: managementEndpoint,
    ...quick,
    ...options,
  });
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

export async function connected(place: Place, options: ServicebusTransportOptions = {}): Promise<Watched> {
  const watched = await connecting(place, options);
  await watched.isReady();
  return watched;
}

/** A subscription of service `shipping` that is established, and what it has been handed. */
export async function subscribed(
  transport: Transport,
  destination: string,
  request: Partial<SubscriptionRequest> = {},
  handler: DeliveryHandler = async () => undefined,
): Promise<{ readonly deliveries: Delivery[]; readonly subscription: TransportSubscription }> {
  const deliveries: Delivery[] = [];
  const subscription = await transport.subscribe(
    {
      service: 'shipping',
      bindings: [{ destination, messageTypes: [defaultType] }],
      ordered: true,
      maxBatch: 50,
      prefetch: 100,
      ...request,
    },
    async (batch) => {
      deliveries.push(...batch);
      await handler(batch);
    },
  );
  await subscription.established;
  return { deliveries, subscription };
}

/** `confirmed`, `notAttempted`, `failed Throttled, retry`, `failed ValidationError`. */
export function outcomeText(outcome: PublishOutcome | undefined): string {
  if (outcome?.kind !== 'failed') return outcome?.kind ?? 'missing';
  return `failed ${failureReasonName(outcome.reason)}${outcome.retryable ? ', retry' : ''}`;
}

/** Waits for an assertion about deliveries. */
export async function received(deliveries: readonly Delivery[], count: number): Promise<void> {
  await waitFor(() => deliveries.length >= count, {
    message: `${count} deliveries (${deliveries.length} so far)`,
    timeoutMs: 30_000,
  });
}

export const idOf = (delivery: Delivery): string | undefined => delivery.attributes['id'];

export const idsOf = (deliveries: readonly Delivery[]): (string | undefined)[] => deliveries.map(idOf);

/** Each id once, where it came first: what the inbox makes of redeliveries. */
export const firstOfEach = (ids: readonly (string | undefined)[]): (string | undefined)[] => [...new Set(ids)];
