import { setTimeout as delay } from 'node:timers/promises';

import type { Program } from '@whizbang/test/fixtures';

const mebi = 1024 ** 2;

/** Asks a worker for its memory until it is ended. */
export class MemorySampling {
  readonly #stopped = new AbortController();
  readonly #running: Promise<number>;

  constructor(worker: Program) {
    this.#running = this.#run(worker);
  }

  /** MiB. */
  async end(): Promise<number> {
    this.#stopped.abort();
    return this.#running;
  }

  async #run(worker: Program): Promise<number> {
    const from = worker.messages.length;
    while (!this.#stopped.signal.aborted) {
      worker.kill('SIGUSR2');
      await delay(100);
    }
    const samples = worker.messages.slice(from).map(({ rss }) => Number(rss ?? 0));
    return Math.max(...samples) / mebi;
  }
}
