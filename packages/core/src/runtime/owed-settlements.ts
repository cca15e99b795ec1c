import type { ClaimedTry, FailedTry, Settlements } from '../contract/work.js';

interface OwedRows {
  readonly completed: ClaimedTry[];
  readonly failed: FailedTry[];
  readonly released: ClaimedTry[];
  readonly deferred: ClaimedTry[];
}

interface Owed {
  readonly holder: string;
  readonly settlements: Settlements;
}

/**
 * Settlements that have not reached the database yet, by the id that claimed their rows. Nothing that is added is lost:
 * what was taken and could not be delivered is put back.
 */
export class OwedSettlements {
  readonly #byHolder = new Map<string, OwedRows>();

  /** Rows that are owed a settlement. */
  get size(): number {
    let size = 0;
    for (const owed of this.#byHolder.values()) {
      size += sizeOf(owed);
    }
    return size;
  }

  add(holder: string, settlements: Partial<Settlements>): void {
    const { completed = [], failed = [], released = [], deferred = [] } = settlements;
    const added = { completed, failed, released, deferred };
    if (sizeOf(added) === 0) {
      return;
    }
    let owed = this.#byHolder.get(holder);
    if (owed === undefined) {
      owed = { completed: [], failed: [], released: [], deferred: [] };
      this.#byHolder.set(holder, owed);
    }
    owed.completed.push(...completed);
    owed.failed.push(...failed);
    owed.released.push(...released);
    owed.deferred.push(...deferred);
  }

  /** Takes all that is owed under one id, the longest known first. */
  take(): Owed | undefined {
    for (const [holder, settlements] of this.#byHolder) {
      this.#byHolder.delete(holder);
      return { holder, settlements };
    }
    return undefined;
  }

  putBack({ holder, settlements }: Owed): void {
    this.add(holder, settlements);
  }
}

function sizeOf(owed: Readonly<Record<keyof OwedRows, readonly unknown[]>>): number {
  return owed.completed.length + owed.failed.length + owed.released.length + owed.deferred.length;
}
