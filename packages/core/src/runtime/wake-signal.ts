/**
 * A doorbell inside the process. It remembers that it was rung: a ring between two waits ends the next wait at once, so
 * that no wake-up is lost, and any number of rings are one.
 */
export class WakeSignal {
  #rung = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#wake?.();
  }

  /** Waits for a ring, at most `ms` milliseconds. Returns whether it was rung. One waiter at a time. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        // setTimeout fires at once above 2^31-1 ms.
        const timer = setTimeout(resolve, Math.min(Math.max(ms, 0), 2_147_483_647));
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = undefined;
    }
    const rung = this.#rung;
    this.#rung = false;
    return rung;
  }
}
