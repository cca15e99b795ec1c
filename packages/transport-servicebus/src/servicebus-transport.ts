import {
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
import type { LiveConnection } from './live-connection.js';
import { type ServicebusSettings, resolveSettings } from './options.js';
import { Publisher } from './publish.js';
import { ServicebusSubscription } from './subscribe.js';
import { refuseMalformed } from './subscription-request.js';
import { Topology } from './topology.js';

// `close` is through within five seconds: this long for what is in hand, the rest for closing links and connections.
const finishMs = 3000;
const closeConnectionMs = 1500;

/**
 * A transport for `Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…`, or for `sb://contoso.servicebus.windows.net`
 * with a credential. Options may stand in the connection string or in `options`: see {@link ServicebusTransportOptions}.
 * @throws ConfigurationError that names everything wrong with the connection string and the options.
 */
export const createTransport: TransportFactory = (connectionString, options) =>
  new ServicebusTransport(resolveSettings(connectionString, options));

class ServicebusTransport implements Transport {
  readonly contractVersion = transportContractVersion;
  readonly name = 'servicebus';
  readonly capabilities: TransportCapabilities;
  readonly #settings: ServicebusSettings;
  readonly #subscriptions = new Set<ServicebusSubscription>();
  readonly #topology: Topology;
  #publisher: Publisher | undefined;
  #publishing: ConnectionSupervisor | undefined;
  #receiving: ConnectionSupervisor | undefined;
  #receivingOn: LiveConnection | undefined;
  #context: TransportContext | undefined;
  #logger: Logger = silentLogger;
  #readiness: Readiness | undefined;
  #closing: Promise<void> | undefined;

  constructor(settings: ServicebusSettings) {
    this.#settings = settings;
    this.#topology = new Topology(settings);
    const announcedLimit = (): number | null => this.#publisher?.maxMessageBytes ?? settings.maxMessageBytes ?? null;
    this.capabilities = {
      durable: true,
      orderedStreams: settings.sessions,
      atomicGroups: true,
      reportsUnroutable: false,
      fanOut: settings.entity === 'topic',
      // The broker hands out whole sessions of a queue that requires them.
      competingConsumers: settings.entity === 'topic' || !settings.sessions,
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
    this.#topology.logger = this.#logger;
    this.#publisher = new Publisher(this.#settings, this.#topology, this.#logger, (ready, cause) =>
      readiness.tell(ready, cause),
    );
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
    refuseMalformed(request, this.#settings);
    const subscription = new ServicebusSubscription(request, handler, this.#settings, this.#logger, () =>
      this.#subscriptions.delete(subscription),
    );
    this.#subscriptions.add(subscription);
    if (this.#receivingOn !== undefined) subscription.attach(this.#receivingOn, this.#topology);
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
    this.#topology.close();
    await Promise.all([this.#publishing?.close(closeConnectionMs), this.#receiving?.close(closeConnectionMs)]);
  }

  /** Receiving has a connection of its own: accepting sessions waits long for its answers, sending must not. */
  #startReceiving(): void {
    if (this.#context === undefined) return;
    this.#receiving ??= new ConnectionSupervisor(
      this.#settings,
      'receiving',
      {
        up: (live) => {
          this.#receivingOn = live;
          for (const subscription of this.#subscriptions) subscription.attach(live, this.#topology);
        },
        down: () => (this.#receivingOn = undefined),
      },
      this.#logger,
    );
    this.#receiving.start();
  }

  #refuseWhenClosed(): void {
    if (this.#closing !== undefined) throw new WhizbangError('WHIZBANG_STATE', 'the Service Bus transport is closed');
  }
}
