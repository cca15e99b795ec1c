import {
  ConfigurationError,
  type DeliveryHandler,
  type Logger,
  type OutgoingMessage,
  type PublishOutcome,
  Readiness,
  type SubscriptionRequest,
  type Transport,
  type TransportCapabilities,
  type TransportContext,
  type TransportFactory,
  type TransportSubscription,
  WhizbangError,
  carefulLogger,
  notAttempted,
  settlesWithin,
  silentLogger,
  transportContractVersion,
} from '@whizbang/core/transport';
import { ConnectionSupervisor } from './connection.js';
import { HandedOver } from './handed-over.js';
import { type KafkaSettings, resolveSettings } from './options.js';
import { Publisher } from './publish.js';
import { KafkaSubscription } from './subscribe.js';

// `close` is through within five seconds: this long for what is in hand, the rest for leaving groups and closing connections.
const finishMs = 3000;

/**
 * A transport for `kafka://user:password@host:9092,host2:9092`, or `kafkas://…` for TLS.
 * Options may stand in the query of the URL or in `options`: see {@link KafkaTransportOptions}.
 * @throws ConfigurationError that names everything wrong with the connection string and the options.
 */
export const createTransport: TransportFactory = (connectionString, options) =>
  new KafkaTransport(resolveSettings(connectionString, options));

class KafkaTransport implements Transport {
  readonly contractVersion = transportContractVersion;
  readonly name = 'kafka';
  readonly capabilities: TransportCapabilities;
  readonly #settings: KafkaSettings;
  readonly #subscriptions = new Set<KafkaSubscription>();
  readonly #handedOver = new HandedOver();
  #publisher: Publisher | undefined;
  #publishing: ConnectionSupervisor | undefined;
  #context: TransportContext | undefined;
  #logger: Logger = silentLogger;
  #readiness: Readiness | undefined;
  #closing: Promise<void> | undefined;

  constructor(settings: KafkaSettings) {
    this.#settings = settings;
    this.capabilities = {
      durable: true,
      orderedStreams: true,
      atomicGroups: true,
      reportsUnroutable: false,
      fanOut: true,
      competingConsumers: false,
      createsTopology: settings.declare,
      maxMessageBytes: settings.maxMessageBytes,
    };
  }

  async connect(context: TransportContext): Promise<void> {
    this.#refuseWhenClosed();
    if (this.#context !== undefined) return;
    this.#context = context;
    this.#logger = carefulLogger(context.logger);
    const readiness = new Readiness(context, this.#logger);
    this.#readiness = readiness;
    this.#publisher = new Publisher(this.#settings, this.#logger, (ready, cause) => readiness.tell(ready, cause));
    this.#publishing = new ConnectionSupervisor(this.#settings, this.#publisher, this.#logger);
    this.#publishing.start();
    for (const subscription of this.#subscriptions) subscription.start();
  }

  ready(): boolean {
    return (this.#readiness?.told ?? false) && (this.#publisher?.ready ?? false);
  }

  async publish(batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<PublishOutcome[]> {
    return this.#publisher?.publish(batch, signal) ?? batch.map(() => notAttempted);
  }

  async subscribe(request: SubscriptionRequest, handler: DeliveryHandler): Promise<TransportSubscription> {
    this.#refuseWhenClosed();
    refuseMalformed(request);
    const subscription = new KafkaSubscription(request, handler, this.#settings, this.#logger, this.#handedOver, () =>
      this.#subscriptions.delete(subscription),
    );
    this.#subscriptions.add(subscription);
    if (this.#context !== undefined) subscription.start();
    return subscription;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const subscriptions = [...this.#subscriptions];
    await Promise.all([
      this.#publisher?.close(finishMs),
      settlesWithin(Promise.all(subscriptions.map((subscription) => subscription.close())), finishMs),
    ]);
    this.#readiness?.tell(false);
    await Promise.all([this.#publishing?.close(), ...subscriptions.map((subscription) => subscription.hangUp())]);
  }

  #refuseWhenClosed(): void {
    if (this.#closing !== undefined) throw new WhizbangError('WHIZBANG_STATE', 'the Kafka transport is closed');
  }
}

function refuseMalformed({ service, bindings, maxBatch, prefetch }: SubscriptionRequest): void {
  const violations: string[] = [];
  const bytes = Buffer.byteLength(service);
  if (bytes < 1 || bytes > 255) violations.push(`service: must have 1 to 255 bytes, has ${bytes}`);
  if (bindings.length === 0) violations.push('bindings: there must be at least one');
  for (const [index, { destination }] of bindings.entries()) {
    if (!/^(?!\.{1,2}$)[\w.-]{1,249}$/.test(destination)) {
      violations.push(
        `bindings.${index}.destination: must be 1 to 249 letters, digits, dots, dashes or underscores, as a topic's name`,
      );
    }
  }
  for (const [path, value] of Object.entries({ maxBatch, prefetch })) {
    if (!Number.isInteger(value) || value < 1) violations.push(`${path}: must be a whole number from 1`);
  }
  if (violations.length > 0) throw new ConfigurationError(`subscription to Kafka: ${violations.join('; ')}`);
}
