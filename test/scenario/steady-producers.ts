import { setTimeout as delay } from 'node:timers/promises';

import type { Whizbang } from '@whizbang/core';
import type pg from 'pg';

import { OrderChanged } from './orders.js';
import { atEnd, inTransaction } from './test-service.js';

// Enough that one message at a time in each is no limit.
const ordersOfEach = 100;

/** Producers that commit, one message each time, at a steady pace until they are stopped; each has orders of its own. */
export class SteadyProducers {
  readonly #stopping = new AbortController();
  readonly #running: Promise<unknown>;
  #committed = 0;

  private constructor(pool: pg.Pool, whizbang: Whizbang, settings: { producers: number; pauseMs: number }) {
    const each = Array.from({ length: settings.producers }, (_, producer) =>
      this.#produce(pool, whizbang, `producer-${producer}`, settings.pauseMs),
    );
    this.#running = Promise.all(each);
    // Told of by stop(); until then a failure has nobody to tell.
    this.#running.catch(() => undefined);
  }

  static start(
    pool: pg.Pool,
    whizbang: Whizbang,
    settings: { readonly producers: number; readonly pauseMs: number },
  ): SteadyProducers {
    const producers = new SteadyProducers(pool, whizbang, settings);
    atEnd(() => producers.stop());
    return producers;
  }

  /** Messages so far, numbered 1, 2, 3, … in each order. */
  get committed(): number {
    return this.#committed;
  }

  /** Rejects when one of them could not commit. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #produce(pool: pg.Pool, whizbang: Whizbang, name: string, pauseMs: number): Promise<void> {
    for (let index = 0; !this.#stopping.signal.aborted; index += 1) {
      const order = `${name}-${index % ordersOfEach}`;
      const number = 1 + Math.floor(index / ordersOfEach);
      await inTransaction(pool, (tx) => whizbang.publish(tx, OrderChanged, { order, number }));
      this.#committed += 1;
      await delay(pauseMs);
    }
  }
}
