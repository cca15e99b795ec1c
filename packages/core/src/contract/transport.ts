import type { MessageFailureReason } from './message-failure-reason.js';
import type { Logger } from './logger.js';

/** The version of {@link Transport} that this core speaks. An adapter built for another one is refused at start. */
export const transportContractVersion = 1;

/**
 * What a transport can do. One object drives behaviour (the publisher and receiver read it), the conformance suite
 * (what is declared is tested, what is not is tested to be refused) and the README's matrix.
 */
export interface TransportCapabilities {
  /** The broker keeps messages over its own restart. */
  readonly durable: boolean;
  /** Publishing and receiving keep the order of one stream. */
  readonly orderedStreams: boolean;
  /** `publish` may be given several messages of one stream; the transport keeps at most one of them unconfirmed, or makes them atomic. */
  readonly atomicGroups: boolean;
  /** A message that no service subscribes to is reported as failed instead of being dropped. */
  readonly reportsUnroutable: boolean;
  /**
   * Every service that subscribes to a destination gets each of its messages. False where a destination is a queue, which
   * one service receives from.
   */
  readonly fanOut: boolean;
  /**
   * Instances that receive without order share messages one by one. False where the broker hands out whole partitions: then an
   * instance beyond their number gets nothing.
   */
  readonly competingConsumers: boolean;
  /** The transport creates exchanges, topics, queues and subscriptions that are missing. */
  readonly createsTopology: boolean;
  /** The largest body in bytes, when the broker announces it or an option says it; `null` when unknown. */
  readonly maxMessageBytes: number | null;
}

/** A message on its way to the broker: a CloudEvents 1.0 event in binary mode. */
export interface OutgoingMessage {
  /** UUID; also the CloudEvents `id`. */
  readonly messageId: string;
  /** Exchange or topic name. */
  readonly destination: string;
  /** CloudEvents `type`; also the routing key where the broker has one. */
  readonly messageType: string;
  /** UUID of the stream whose order must hold; `null` when the message has none. */
  readonly streamId: string | null;
  /** CloudEvents context attributes by their plain lower-case name (`id`, `specversion`, `type`, `source`, `time`, `partitionkey`, …). */
  readonly attributes: Readonly<Record<string, string>>;
  /** The user's own headers; they travel beside the attributes, under their own names. */
  readonly headers: Readonly<Record<string, string>>;
  /** UTF-8 JSON. */
  readonly body: Buffer;
}

/** What became of one message of a batch. */
export type PublishOutcome =
  /** The broker has confirmed this very message. */
  | { readonly kind: 'confirmed' }
  /**
   * The message was tried and the broker did not confirm it. `retryable` says whether the same bytes can succeed later
   * without a change of code or configuration. `retryAfterMs` is what the broker asked to wait.
   */
  | {
      readonly kind: 'failed';
      readonly reason: MessageFailureReason;
      readonly retryable: boolean;
      readonly error: Error;
      readonly retryAfterMs?: number;
    }
  /** Nothing was sent for this message: it costs no attempt. */
  | { readonly kind: 'notAttempted' };

/**
 * One line of a transport's classification: what the broker or its client says, and what it is recorded as. An adapter's
 * `classification.ts` holds them all; `docs/errors.md` is generated from it.
 */
export interface ClassifiedCondition {
  /** The broker's code or the client's signal, for people: `404 NOT_FOUND`, `KafkaJSRequestTimeoutError on Produce`. */
  readonly condition: string;
  readonly reason: MessageFailureReason;
  /** Whether the same bytes can succeed later without a change of code or configuration. */
  readonly retryable: boolean;
}

/** A message as the broker handed it over. Nothing has been checked yet; the receiver decodes it. */
export interface Delivery {
  /** CloudEvents attributes by plain name, as found; may be incomplete when the sender is not a Whizbang service. */
  readonly attributes: Readonly<Record<string, string>>;
  /** All other headers, as strings. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Exchange or topic it came through, for dead letters and logs. */
  readonly destination: string;
  /** True when the broker says, or the transport itself has seen, that this message was handed over before. */
  readonly redelivered: boolean;
}

/**
 * Takes deliveries in the order of the broker. The transport acknowledges all of them after the promise resolves and
 * none when it rejects: then it hands them over again, in the same order, after a pause. It is never called again for the
 * same subscription before the last promise has settled.
 */
export type DeliveryHandler = (deliveries: readonly Delivery[]) => Promise<void>;

export interface SubscriptionRequest {
  /** Queue, consumer group or subscription name. */
  readonly service: string;
  /** What to receive: the message types wanted from each destination. */
  readonly bindings: readonly { readonly destination: string; readonly messageTypes: readonly string[] }[];
  /**
   * True (the default of core): one consumer at a time receives a stream, so that its order survives the broker.
   * False gives up order for parallel receiving.
   */
  readonly ordered: boolean;
  /** Most deliveries in one call of the handler. */
  readonly maxBatch: number;
  /** Most deliveries that may be unacknowledged at a time. */
  readonly prefetch: number;
}

/** A running subscription. It survives reconnects; it ends by `close` only. */
export interface TransportSubscription {
  /**
   * Resolves when the broker first knows of the subscription: what is published from then on is routed to it. Never rejects,
   * and stays pending while the broker is away.
   */
  readonly established: Promise<void>;
  /** Stops intake, waits for the handler call in hand and its acknowledgements, then releases what was not handed over. */
  close(): Promise<void>;
}

export interface TransportContext {
  readonly logger: Logger;
  /** Called on every change of `ready()`, with the cause when it became false. */
  onReadyChange(ready: boolean, cause?: Error): void;
}

/**
 * The way to one broker. Two verbs, `publish` and `subscribe`; everything else is capability or lifecycle.
 * All methods may be called while the broker is away.
 */
export interface Transport {
  readonly contractVersion: typeof transportContractVersion;
  /** Lower-case name for logs and metrics: `rabbitmq`, `kafka`, `servicebus`, `memory`. */
  readonly name: string;
  readonly capabilities: TransportCapabilities;
  /**
   * Starts connecting and returns at once: an unreachable broker is not an error but a state (`ready()` is false, the
   * transport keeps trying with backoff, and tells through `onReadyChange` and the log).
   * @throws ConfigurationError when no amount of waiting can help (a malformed URL, an unknown option).
   */
  connect(context: TransportContext): Promise<void>;
  /** True while publishing can be expected to work. */
  ready(): boolean;
  /**
   * Publishes a batch and reports one outcome per message, in the same order; never rejects for a broker's sake.
   * Messages of one stream reach the broker in the order of the batch, with at most one unconfirmed at a time
   * (or all in one atomic group); after the first of a stream that is not confirmed, the rest of that stream is `notAttempted`.
   * When `signal` aborts, nothing new is sent and what is unsent becomes `notAttempted`; what is in flight is still awaited
   * up to the confirm timeout.
   */
  publish(batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<PublishOutcome[]>;
  /** Starts receiving; waits with backoff while the broker is away. Resolves when the subscription is registered, not when the broker is reached. */
  subscribe(request: SubscriptionRequest, handler: DeliveryHandler): Promise<TransportSubscription>;
  /** Closes subscriptions and connections; afterwards no timer or socket of the transport is left. Safe to call twice. */
  close(): Promise<void>;
}

/** What an adapter package exports under the name `createTransport`: core calls it with the user's connection string. */
export type TransportFactory = (connectionString: string, options?: Readonly<Record<string, unknown>>) => Transport;
