/** The promise's value, or an error that says what did not happen in time. */
export async function within<T>(deadlineMs: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    // Made here, for a stack that leads to the check.
    const error = new Error(`did not happen within ${deadlineMs} ms: ${what}`);
    timer = setTimeout(() => reject(error), deadlineMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A list that can be waited on. */
export class Arrivals<T> {
  readonly items: T[] = [];
  readonly #deadlineMs: number;
  readonly #watchers = new Set<() => void>();

  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs;
  }

  push(...items: readonly T[]): void {
    this.items.push(...items);
    this.changed();
  }

  /** For lists that are fed from elsewhere. */
  changed(): void {
    for (const look of this.#watchers) look();
  }

  /** Resolves once the condition holds, looking after every arrival. */
  async until(what: string, condition: (items: readonly T[]) => boolean): Promise<void> {
    if (condition(this.items)) return;
    let look = (): void => undefined;
    const held = new Promise<void>((resolve, reject) => {
      look = () => {
        // A condition that throws must fail the one who waits, not the one who delivers.
        try {
          if (condition(this.items)) resolve();
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      };
    });
    this.#watchers.add(look);
    try {
      await within(this.#deadlineMs, what, held);
    } catch (error) {
      throw error instanceof Error
        ? new Error(`${error.message} (${this.items.length} arrived)`, { cause: error })
        : error;
    } finally {
      this.#watchers.delete(look);
    }
  }

  untilCount(count: number, what = `${count} arrivals`): Promise<void> {
    return this.until(what, (items) => items.length >= count);
  }
}

/** Something that a check holds back until it says so. */
export class Hold {
  readonly #released: Promise<void>;
  #release: () => void = () => undefined;

  constructor() {
    this.#released = new Promise((resolve) => (this.#release = resolve));
  }

  /** Waits for the release. */
  wait(): Promise<void> {
    return this.#released;
  }

  release(): void {
    this.#release();
  }
}
