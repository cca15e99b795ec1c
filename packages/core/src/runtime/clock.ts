/** Milliseconds on a clock that never goes back; for durations only. */
export function monotonicMs(): number {
  return performance.now();
}

/** The time of day as RFC 3339, for what people and other systems read; leases and schedules go by the database's clock. */
export function timestamp(): string {
  return new Date().toISOString();
}

/** The moment so many milliseconds after 1970; what JavaScript has no date for is the first or the last that it has. */
export function dateAt(ms: number): Date {
  return new Date(Math.min(Math.max(ms, -8.64e15), 8.64e15));
}

/** Calls `work` after `ms` milliseconds, unless it is cancelled before. */
export function after(ms: number, work: () => void): { cancel(): void } {
  const timer = setTimeout(work, Math.min(Math.max(ms, 0), 2_147_483_647));
  return { cancel: () => clearTimeout(timer) };
}

/** Resolves after `ms` milliseconds, or at once when `signal` aborts; never rejects. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) {
    return;
  }
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, Math.min(ms, 2_147_483_647));
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    }
    signal?.addEventListener('abort', done);
  });
}

/** Waits for `work`, at most `ms` milliseconds. Returns whether it settled; a rejection counts as settled. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.max(ms, 0));
  });
  try {
    return await Promise.race([
      work.then(
        () => true,
        () => true,
      ),
      late,
    ]);
  } finally {
    clearTimeout(timer);
  }
}

/** The outcome of `work`, or a rejection with `late()` after `ms` milliseconds. */
export function within<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), Math.max(ms, 0));
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
