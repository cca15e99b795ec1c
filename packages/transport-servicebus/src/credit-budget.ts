/**
 * The deliveries that a subscription may hold, or let the broker send, at a time. Those who wait for a first one come
 * before those who want more: a busy session must not keep others from being accepted.
 */
export class CreditBudget {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(credits: number) {
    this.#free = credits;
  }

  /** True while somebody waits for a first one. */
  get awaited(): boolean {
    return this.#waiting.size > 0;
  }

  /** One more, when there is one that nobody waits for. */
  tryTake(): boolean {
    if (this.#free <= 0 || this.#waiting.size > 0) return false;
    this.#free -= 1;
    return true;
  }

  /** Waits for one. False when the signal aborts first. */
  async take(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      if (this.#free > 0) {
        this.#free -= 1;
        return true;
      }
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          signal.removeEventListener('abort', wake);
          this.#waiting.delete(wake);
          resolve();
        };
        this.#waiting.add(wake);
        signal.addEventListener('abort', wake);
      });
    }
    return false;
  }

  giveBack(credits: number): void {
    this.#free += credits;
    for (const wake of [...this.#waiting].slice(0, credits)) wake();
  }
}
