import type { Logger } from '../contract/logger.js';
import type { Delivery, DeliveryHandler, SubscriptionRequest, TransportSubscription } from '../contract/transport.js';
import type { QueueConsumer, QueuedMessage, ServiceQueue } from './service-queue.js';

const firstPauseMs = 50;
const longestPauseMs = 5_000;
const nothing: readonly QueuedMessage[] = [];

/** One consumer of a service's queue. Unattached while the broker is away; it lives on until `close`. */
export class InProcessSubscription implements TransportSubscription, QueueConsumer {
  readonly request: SubscriptionRequest;
  readonly established: Promise<void>;
  #establish: () => void = () => undefined;
  readonly #handler: DeliveryHandler;
  readonly #logger: Logger;
  readonly #onClosed: (subscription: InProcessSubscription) => void;
  readonly #batchLimit: number;
  #queue: ServiceQueue | undefined;
  #inHand = nothing;
  #handing: Promise<void> | undefined;
  #turn: NodeJS.Immediate | undefined;
  #pause: NodeJS.Timeout | undefined;
  #pauseMs = firstPauseMs;
  #closing: Promise<void> | undefined;

  constructor(
    request: SubscriptionRequest,
    handler: DeliveryHandler,
    logger: Logger,
    onClosed: (subscription: InProcessSubscription) => void,
  ) {
    this.request = request;
    this.established = new Promise((resolve) => {
      this.#establish = resolve;
    });
    this.#handler = handler;
    this.#logger = logger;
    this.#onClosed = onClosed;
    this.#batchLimit = Math.max(1, Math.min(request.maxBatch, request.prefetch));
  }

  attach(queue: ServiceQueue): void {
    queue.attach(this, this.request.ordered);
    this.#queue = queue;
    this.#establish();
    this.wake();
  }

  /** The connection is gone: what is in hand goes back, and the acknowledgement of a handler that still runs is void. */
  detach(): void {
    const queue = this.#queue;
    if (queue === undefined) return;
    this.#queue = undefined;
    const inHand = this.#inHand;
    this.#inHand = nothing;
    // Back in the queue before the next consumer is served, or it would overtake them.
    if (inHand.length > 0) queue.requeue(inHand);
    queue.detach(this);
  }

  wake(): void {
    if (this.#turn !== undefined || this.#handing !== undefined || this.#pause !== undefined) return;
    if (this.#closing !== undefined || this.#queue === undefined) return;
    // One turn of the event loop collects what many publishes bring, and lets input and output in between batches.
    this.#turn = setImmediate(() => {
      this.#turn = undefined;
      const queue = this.#queue;
      const entries = queue?.takeUpTo(this.#batchLimit, this) ?? nothing;
      if (queue !== undefined && entries.length > 0) this.#handing = this.#handOverThenWake(entries, queue);
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#turn !== undefined) clearImmediate(this.#turn);
    if (this.#pause !== undefined) clearTimeout(this.#pause);
    await this.#handing;
    this.detach();
    this.#onClosed(this);
  }

  async #handOverThenWake(entries: readonly QueuedMessage[], queue: ServiceQueue): Promise<void> {
    // A handler may throw before it has returned a promise; awaited here, its end always comes after `#handing` is set.
    await this.#handOver(entries, queue);
    this.#handing = undefined;
    this.wake();
  }

  async #handOver(entries: readonly QueuedMessage[], queue: ServiceQueue): Promise<void> {
    this.#inHand = entries;
    let accepted = false;
    try {
      await this.#handler(entries.map(toDelivery));
      accepted = true;
      this.#pauseMs = firstPauseMs;
    } catch (error) {
      this.#rest(error, entries.length);
    }
    // Otherwise the connection broke meanwhile, and the broker has taken them back already.
    if (this.#inHand === entries) {
      this.#inHand = nothing;
      if (accepted) queue.acknowledge(entries);
      else queue.requeue(entries);
    }
  }

  #rest(error: unknown, messages: number): void {
    const pauseMs = this.#pauseMs;
    const { service } = this.request;
    this.#logger.warn(
      { err: error, service, messages, pauseMs },
      'deliveries were rejected and will be handed over again',
    );
    this.#pauseMs = Math.min(pauseMs * 2, longestPauseMs);
    if (this.#closing !== undefined) return;
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      this.wake();
    }, pauseMs);
    // A pause alone is no reason to keep the process alive.
    this.#pause.unref();
  }
}

/** A copy: what a handler does to its delivery must not show when the broker hands the message over again. */
function toDelivery({ message, redelivered }: QueuedMessage): Delivery {
  return {
    attributes: { ...message.attributes },
    headers: { ...message.headers },
    body: Buffer.from(message.body),
    destination: message.destination,
    redelivered,
  };
}
