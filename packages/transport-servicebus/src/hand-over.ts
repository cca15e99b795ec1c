import { Backoff, type Delivery, type DeliveryHandler, type FailureLog, pause } from '@whizbang/core/transport';
import { textOf } from './errors.js';
import type { HeldDelivery } from './held-delivery.js';

// The pause after a rejection of the handler: the deliveries stay locked here, so trying again costs the broker nothing.
const firstRetryMs = 200;
const longestRetryMs = 5000;

/**
 * Hands the deliveries of all sessions of a subscription to its handler, one call at a time, in the order in which they came.
 *
 * What the handler rejects is not given back to the broker: its locks are kept, and it is handed over again from here. So
 * its order cannot change, and no delivery count is used up while the handler's database is away.
 */
export class HandOver {
  readonly #handler: DeliveryHandler;
  readonly #maxBatch: number;
  readonly #log: FailureLog;
  readonly #stopping = new AbortController();
  readonly #completing = new Set<Promise<void>>();
  #waiting: HeldDelivery[] = [];
  #running: Promise<void> | undefined;

  constructor(handler: DeliveryHandler, maxBatch: number, log: FailureLog) {
    this.#handler = handler;
    this.#maxBatch = maxBatch;
    this.#log = log;
  }

  add(held: HeldDelivery): void {
    this.#waiting.push(held);
    if (this.#running !== undefined || this.#stopping.signal.aborted) return;
    this.#running = this.#handOver().finally(() => (this.#running = undefined));
  }

  /** Lets the call in hand end, and completes what it accepts. The rest stays with those who have locked it. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    await Promise.all(this.#completing);
  }

  async #handOver(): Promise<void> {
    const { signal } = this.#stopping;
    const backoff = new Backoff(firstRetryMs, longestRetryMs);
    while (!signal.aborted) {
      // What has arrived together is taken along together.
      await new Promise((resolve) => setImmediate(resolve));
      this.#waiting = this.#waiting.filter(({ lost }) => !lost);
      const batch = this.#waiting.slice(0, this.#maxBatch);
      if (batch.length === 0) return;
      try {
        await this.#handler(batch.map(deliveryOf));
      } catch (error) {
        for (const held of batch) held.tried = true;
        this.#log.failed(textOf(error), { deliveries: batch.length });
        await pause(backoff.next(), signal);
        continue;
      }
      this.#log.succeeded();
      backoff.reset();
      this.#waiting.splice(0, batch.length);
      for (const held of batch) this.#complete(held);
    }
  }

  /** Is not waited for: the next call need not know the broker's answer. */
  #complete(held: HeldDelivery): void {
    const completing = held.complete().finally(() => this.#completing.delete(completing));
    this.#completing.add(completing);
  }
}

function deliveryOf({ delivery, tried }: HeldDelivery): Delivery {
  return tried ? { ...delivery, redelivered: true } : delivery;
}
