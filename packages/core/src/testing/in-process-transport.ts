import { type Logger, silentLogger } from '../contract/logger.js';
import {
  type DeliveryHandler,
  type OutgoingMessage,
  type PublishOutcome,
  type SubscriptionRequest,
  type Transport,
  type TransportCapabilities,
  type TransportContext,
  type TransportSubscription,
  transportContractVersion,
} from '../contract/transport.js';
import { WhizbangError } from '../errors/whizbang-error.js';
import { type BrokerConnection, InProcessBroker } from './in-process-broker.js';
import { type ResolvedInProcessOptions, resolveInProcessOptions } from './in-process-options.js';
import { InProcessSubscription } from './in-process-subscription.js';

/**
 * A transport to the broker inside this process. Transports of one connection string share it: `memory:`, `memory:name`.
 * What is published there is gone with the process.
 * @throws ConfigurationError for a malformed connection string or unknown options.
 */
export function createInProcessTransport(
  connectionString = 'memory:',
  options: Readonly<Record<string, unknown>> = {},
): Transport {
  return new InProcessTransport(resolveInProcessOptions(connectionString, options));
}

class InProcessTransport implements Transport, BrokerConnection {
  readonly contractVersion = transportContractVersion;
  readonly name = 'memory';
  readonly capabilities: TransportCapabilities;
  readonly #options: ResolvedInProcessOptions;
  readonly #broker: InProcessBroker;
  readonly #subscriptions = new Set<InProcessSubscription>();
  readonly #closed = new AbortController();
  #context: TransportContext | undefined;
  #logger: Logger = silentLogger;
  #ready = false;

  constructor(options: ResolvedInProcessOptions) {
    this.#options = options;
    this.#broker = InProcessBroker.named(options.broker);
    this.capabilities = {
      durable: false,
      orderedStreams: true,
      atomicGroups: true,
      reportsUnroutable: options.mandatory,
      fanOut: true,
      competingConsumers: true,
      createsTopology: options.declare,
      maxMessageBytes: options.maxMessageBytes,
    };
  }

  async connect(context: TransportContext): Promise<void> {
    this.#refuseWhenClosed();
    if (this.#context !== undefined) return;
    this.#context = context;
    this.#logger = context.logger;
    this.#broker.join(this);
    if (this.#broker.available) this.availabilityChanged(true, undefined);
  }

  ready(): boolean {
    return this.#ready;
  }

  async publish(batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<PublishOutcome[]> {
    while (this.#ready && !signal.aborted && this.#broker.blocked !== undefined) {
      await this.#broker.blocked.passed(signal, this.#closed.signal);
    }
    if (!this.#ready || signal.aborted) return batch.map(() => ({ kind: 'notAttempted' }));
    return this.#broker.publish(batch, this.#options);
  }

  async subscribe(request: SubscriptionRequest, handler: DeliveryHandler): Promise<TransportSubscription> {
    this.#refuseWhenClosed();
    const subscription = new InProcessSubscription(request, handler, this.#logger, (closed) => {
      this.#subscriptions.delete(closed);
    });
    if (this.#ready) this.#attach(subscription);
    this.#subscriptions.add(subscription);
    return subscription;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#setReady(false);
    await Promise.all([...this.#subscriptions].map((subscription) => subscription.close()));
    this.#broker.leave(this);
  }

  availabilityChanged(available: boolean, cause: Error | undefined): void {
    if (this.#closed.signal.aborted && available) return;
    for (const subscription of this.#subscriptions) {
      if (available) this.#reattach(subscription);
      else subscription.detach();
    }
    this.#setReady(available, available ? undefined : cause);
  }

  #setReady(ready: boolean, cause?: Error): void {
    if (this.#ready === ready) return;
    this.#ready = ready;
    this.#context?.onReadyChange(ready, cause);
  }

  #attach(subscription: InProcessSubscription): void {
    const { service, bindings } = subscription.request;
    subscription.attach(this.#broker.declare(service, bindings, this.#options.declare));
  }

  #reattach(subscription: InProcessSubscription): void {
    try {
      this.#attach(subscription);
    } catch (error) {
      // There is no caller to tell: the subscription was made while the broker was away.
      this.#logger.error({ err: error, service: subscription.request.service }, 'subscription cannot be set up');
    }
  }

  #refuseWhenClosed(): void {
    if (this.#closed.signal.aborted) throw new WhizbangError('WHIZBANG_STATE', 'the transport is closed');
  }
}
