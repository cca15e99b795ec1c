/** Resolves after `ms`, or at once when `signal` aborts. */
export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}

/** The outcome of `promise`, or a rejection with `timeout()` after `ms`. */
export function within<T>(promise: Promise<T>, ms: number, timeout: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(timeout()), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Resolves when `promise` settles in whatever way, or after `ms`: for steps of closing, which must go on. */
export async function settledWithin(promise: Promise<unknown>, ms: number): Promise<void> {
  await within(promise, Math.max(0, ms), () => new Error('timed out')).catch(() => undefined);
}

/** Pauses that double from `first` to `most` ms, each off by up to 20 % so that clients do not come back in step. */
export class Backoff {
  readonly #first: number;
  readonly #most: number;
  #next: number;

  constructor(first: number, most: number) {
    this.#first = first;
    this.#most = most;
    this.#next = first;
  }

  next(): number {
    const pause = this.#next;
    this.#next = Math.min(pause * 2, this.#most);
    return pause * (0.8 + Math.random() * 0.4);
  }

  reset(): void {
    this.#next = this.#first;
  }

  /** The next pause is the longest: for what nobody but an operator can mend. */
  jumpToLongest(): void {
    this.#next = this.#most;
  }
}
