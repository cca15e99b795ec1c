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
import { ConnectionSupervisor, type LiveConnection } from './connection.js';
import { type RabbitmqSettings, resolveSettings } from './options.js';
import { Publisher } from './publish.js';
import { RabbitmqSubscription } from './subscribe.js';

// `close` is through within five seconds: this long for what is in hand, the rest for closing channels and connections.
const finishMs = 3000;
const closeConnectionMs = 1000;

/**
 * A transport for `amqp://user:password@host:5672/vhost`, or `amqps://…` for TLS.
 * Options may stand in the query of the URL or in `options`: see {@link RabbitmqTransportOptions}.
 * @throws ConfigurationError that names everything wrong with the connection string and the options.
 */
export const createTransport: TransportFactory = (connectionString, options) =>
  new RabbitmqTransport(resolveSettings(connectionString, options));

class RabbitmqTransport implements Transport {
  readonly contractVersion = transportContractVersion;
  readonly name = 'rabbitmq';
  readonly capabilities: TransportCapabilities;
  readonly #settings: RabbitmqSettings;
  readonly #subscriptions = new Set<RabbitmqSubscription>();
  #publisher: Publisher | undefined;
  #publishing: ConnectionSupervisor | undefined;
  #receiving: ConnectionSupervisor | undefined;
  #receivingOn: LiveConnection | undefined;
  #context: TransportContext | undefined;
  #logger: Logger = silentLogger;
  #readiness: Readiness | undefined;
  #closing: Promise<void> | undefined;

  constructor(settings: RabbitmqSettings) {
    this.#settings = settings;
    const announcedLimit = (): number | null => this.#publisher?.maxMessageBytes ?? settings.maxMessageBytes ?? null;
    this.capabilities = {
      durable: true,
      orderedStreams: true,
      atomicGroups: true,
      reportsUnroutable: settings.mandatory,
      fanOut: true,
      competingConsumers: true,
      createsTopology: settings.declare,
      get maxMessageBytes() {
        return announcedLimit();
      },
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
    this.#publishing = new ConnectionSupervisor(this.#settings, 'publishing', this.#publisher, this.#logger);
    this.#publishing.start();
    if (this.#subscriptions.size > 0) this.#startReceiving();
  }

  ready(): boolean {
    return this.#publisher?.ready ?? false;
  }

  async publish(batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<PublishOutcome[]> {
    return this.#publisher?.publish(batch, signal) ?? batch.map(() => notAttempted);
  }

  async subscribe(request: SubscriptionRequest, handler: DeliveryHandler): Promise<TransportSubscription> {
    this.#refuseWhenClosed();
    refuseMalformed(request);
    const subscription = new RabbitmqSubscription(request, handler, this.#settings, this.#logger, () =>
      this.#subscriptions.delete(subscription),
    );
    this.#subscriptions.add(subscription);
    if (this.#receivingOn !== undefined) subscription.attach(this.#receivingOn);
    else this.#startReceiving();
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
    await Promise.all([this.#publishing?.close(closeConnectionMs), this.#receiving?.close(closeConnectionMs)]);
  }

  /** Consuming has a connection of its own: an alarm at the broker blocks those that publish, and acknowledgements must go on. */
  #startReceiving(): void {
    if (this.#context === undefined) return;
    this.#receiving ??= new ConnectionSupervisor(
      this.#settings,
      'receiving',
      {
        up: (live) => {
          this.#receivingOn = live;
          for (const subscription of this.#subscriptions) subscription.attach(live);
        },
        down: () => (this.#receivingOn = undefined),
      },
      this.#logger,
    );
    this.#receiving.start();
  }

  #refuseWhenClosed(): void {
    if (this.#closing !== undefined) throw new WhizbangError('WHIZBANG_STATE', 'the RabbitMQ transport is closed');
  }
}

function refuseMalformed({ service, bindings, maxBatch, prefetch }: SubscriptionRequest): void {
  const violations: string[] = [];
  const names: [path: string, name: string][] = [['service', service]];
  for (const [index, { destination, messageTypes }] of bindings.entries()) {
    names.push([`bindings.${index}.destination`, destination]);
    names.push(...messageTypes.map((type, at): [string, string] => [`bindings.${index}.messageTypes.${at}`, type]));
  }
  for (const [path, name] of names) {
    const bytes = Buffer.byteLength(name);
    if (bytes < 1 || bytes > 255) violations.push(`${path}: must have 1 to 255 bytes, has ${bytes}`);
  }
  for (const [path, value] of Object.entries({ maxBatch, prefetch })) {
    if (!Number.isInteger(value) || value < 1) violations.push(`${path}: must be a whole number from 1`);
  }
  if (violations.length > 0) throw new ConfigurationError(`subscription to RabbitMQ: ${violations.join('; ')}`);
}
