import {
  type DeliveryHandler,
  FailureLog,
  type Logger,
  type SubscriptionRequest,
  type TransportSubscription,
} from '@whizbang/core/transport';
import { BindingReceiver } from './binding-receiver.js';
import type { LiveConnection } from './live-connection.js';
import { CreditBudget } from './credit-budget.js';
import { HandOver } from './hand-over.js';
import { LockedMessages } from './locked-messages.js';
import type { ServicebusSettings } from './options.js';
import type { Topology } from './topology.js';

/** One service's subscription to its destinations, over all reconnects. */
export class ServicebusSubscription implements TransportSubscription {
  readonly established: Promise<void>;
  #establish: () => void = () => undefined;
  readonly #request: SubscriptionRequest;
  readonly #settings: ServicebusSettings;
  readonly #logger: Logger;
  readonly #onClosed: () => void;
  readonly #handOver: HandOver;
  readonly #locked: ReadonlyMap<unknown, LockedMessages>;
  /** Bindings that the broker does not know of yet, as far as is known here. */
  readonly #unknown: Set<unknown>;
  #receivers: readonly BindingReceiver[] = [];
  #closing: Promise<void> | undefined;

  constructor(
    request: SubscriptionRequest,
    handler: DeliveryHandler,
    settings: ServicebusSettings,
    logger: Logger,
    onClosed: () => void,
  ) {
    this.established = new Promise((resolve) => (this.#establish = resolve));
    this.#request = request;
    this.#settings = settings;
    this.#logger = logger;
    this.#onClosed = onClosed;
    this.#unknown = new Set(request.bindings);
    this.#locked = new Map(
      request.bindings.map((binding) => [binding, new LockedMessages(binding.destination, settings.lockRenewalMs)]),
    );
    const log = new FailureLog(logger, `storing deliveries for service "${request.service}"`);
    this.#handOver = new HandOver(handler, request.maxBatch, log);
  }

  /** The connection is there: receives over it until it ends or `close` is called. */
  attach(live: LiveConnection, topology: Topology): void {
    if (this.#closing !== undefined) return;
    const budget = new CreditBudget(this.#request.prefetch);
    this.#receivers = this.#request.bindings.map(
      (binding) =>
        new BindingReceiver(live, this.#request, binding, {
          settings: this.#settings,
          topology,
          logger: this.#logger,
          budget,
          locked: this.#locked.get(binding) as LockedMessages,
          deliver: (held) => this.#handOver.add(held),
          established: () => {
            this.#unknown.delete(binding);
            if (this.#unknown.size === 0) this.#establish();
          },
        }),
    );
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#handOver.stop();
    await Promise.all(this.#receivers.map((receiver) => receiver.close()));
    this.#onClosed();
  }
}
