import {
  Backoff,
  type DeliveryHandler,
  FailureLog,
  type Logger,
  MessageFailureReason,
  type SubscriptionRequest,
  type TransportSubscription,
  pause,
  settlesWithin,
} from '@whizbang/core/transport';
import type { LiveConnection } from './connection.js';
import { type ConsumerChannel, openConsumer } from './consumer-channel.js';
import { RabbitmqError } from './errors.js';
import type { RabbitmqSettings } from './options.js';
import { ensureSubscription } from './topology.js';

// The pause after a rejection of the handler: the deliveries stay here, so trying again costs the broker nothing.
const firstRetryMs = 200;
const longestRetryMs = 5000;
const closeChannelMs = 1000;

/**
 * One queue consumed, over all reconnects.
 *
 * Deliveries that the handler rejects are not given back to the broker: they stay unacknowledged in the buffer and are
 * handed over again from there. So their order cannot change, and no delivery limit of the queue is used up while the
 * handler's database is away. Only a lost channel gives them back, all at once, which the broker does in order.
 */
export class RabbitmqSubscription implements TransportSubscription {
  readonly established: Promise<void>;
  #establish: () => void = () => undefined;
  readonly #request: SubscriptionRequest;
  readonly #handler: DeliveryHandler;
  readonly #settings: RabbitmqSettings;
  readonly #logger: Logger;
  readonly #consumeLog: FailureLog;
  readonly #handlerLog: FailureLog;
  readonly #onClosed: () => void;
  readonly #stopping = new AbortController();
  #consumer: ConsumerChannel | undefined;
  #consuming: Promise<void> = Promise.resolve();
  #delivering: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(
    request: SubscriptionRequest,
    handler: DeliveryHandler,
    settings: RabbitmqSettings,
    logger: Logger,
    onClosed: () => void,
  ) {
    this.established = new Promise((resolve) => {
      this.#establish = resolve;
    });
    this.#request = request;
    this.#handler = handler;
    this.#settings = settings;
    this.#logger = logger;
    this.#onClosed = onClosed;
    this.#consumeLog = new FailureLog(logger, `receiving from queue "${request.service}"`);
    this.#handlerLog = new FailureLog(logger, `storing deliveries from queue "${request.service}"`);
  }

  /** The connection is there: consumes on it until it ends or `close` is called. */
  attach(live: LiveConnection): void {
    if (this.#stopping.signal.aborted) return;
    const before = this.#consuming;
    this.#consuming = before.then(() => this.#consumeOn(live));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /**
   * There is no cancel first: with a single active consumer it would make the next one active while deliveries are still
   * in hand here. Closing the channel gives back and hands on in one step.
   */
  async #close(): Promise<void> {
    this.#stopping.abort();
    await this.#delivering;
    await this.#consumer?.close(closeChannelMs);
    await settlesWithin(this.#consuming, closeChannelMs);
    this.#onClosed();
  }

  async #consumeOn(live: LiveConnection): Promise<void> {
    const { signal } = this.#stopping;
    const backoff = new Backoff(this.#settings.reconnectDelayMs, this.#settings.reconnectMaxDelayMs);
    const overSignal = AbortSignal.any([signal, endOf(live)]);
    const over = (): boolean => signal.aborted || live.endedBy !== undefined;
    while (!over()) {
      try {
        await ensureSubscription(live, this.#request, this.#settings);
        // Checked late: close may have been called meanwhile, and would not know of this channel.
        if (signal.aborted) return;
        const consumer = await openConsumer(live, this.#request, () => this.#deliver());
        this.#consumer = consumer;
        if (signal.aborted) {
          await consumer.close(closeChannelMs);
          return;
        }
        // For deliveries that came in before this was its consumer.
        this.#deliver();
        this.#establish();
        this.#consumeLog.succeeded();
        this.#logger.debug({ queue: this.#request.service }, 'receiving');
        const openedAt = performance.now();
        const cause = await consumer.ended;
        if (over()) return;
        if (performance.now() - openedAt > this.#settings.reconnectMaxDelayMs) backoff.reset();
        this.#consumeLog.failed(cause.message, { queue: this.#request.service });
      } catch (error) {
        if (over()) return;
        const text = error instanceof Error ? error.message : String(error);
        this.#consumeLog.failed(text, { queue: this.#request.service });
        // Somebody has to change the broker or the options first.
        if (error instanceof RabbitmqError && error.reason === MessageFailureReason.ValidationError) {
          backoff.jumpToLongest();
        }
      }
      await pause(backoff.next(), overSignal);
    }
  }

  /** Starts handing over, unless that is going on: then the new deliveries are found by it. */
  #deliver(): void {
    if (this.#delivering !== undefined || this.#stopping.signal.aborted) return;
    this.#delivering = this.#handOver()
      .catch((error: unknown) => this.#logger.error({ error }, 'handing over deliveries failed'))
      .finally(() => (this.#delivering = undefined));
  }

  async #handOver(): Promise<void> {
    const { signal } = this.#stopping;
    const backoff = new Backoff(firstRetryMs, longestRetryMs);
    // All frames that have arrived with this one are parsed in this turn; the batch takes them along without waiting.
    await new Promise((resolve) => setImmediate(resolve));
    while (!signal.aborted) {
      const consumer = this.#consumer;
      const batch = consumer?.take(this.#request.maxBatch) ?? [];
      if (consumer === undefined || batch.length === 0) return;
      try {
        await this.#handler(batch);
      } catch (error) {
        consumer.rejected(batch.length);
        this.#handlerLog.failed(error instanceof Error ? error.message : String(error), { deliveries: batch.length });
        await pause(backoff.next(), signal);
        continue;
      }
      this.#handlerLog.succeeded();
      backoff.reset();
      consumer.acknowledge(batch.length);
    }
  }
}

function endOf(live: LiveConnection): AbortSignal {
  const end = new AbortController();
  void live.ended.then(() => end.abort());
  return end.signal;
}
