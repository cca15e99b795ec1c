import type { ClaimedTry, FailedTry, Settlements } from '../contract/work.js';

interface Owed {
  readonly holder: string;
  readonly settlements: Settlements;
}

/**
 * Settlements that have not reached the database yet, by the id that claimed their rows. Nothing that is added is lost:
 * what was taken and could not be delivered is put back.
 */
export class OwedSettlements {
  readonly #byHolder = new Map<string, { completed: ClaimedTry[]; failed: FailedTry[]; released: ClaimedTry[] }>();

  /** Rows that are owed a settlement. */
  get size(): number {
    let size = 0;
    for (const { completed, failed, released } of this.#byHolder.values()) {
      size += completed.length + failed.length + released.length;
    }
    return size;
  }

  add(holder: string, settlements: Settlements): void {
    const { completed, failed, released } = settlements;
    if (completed.length + failed.length + released.length === 0) {
      return;
    }
    const owed = this.#byHolder.get(holder);
    if (owed === undefined) {
      this.#byHolder.set(holder, { completed: [...completed], failed: [...failed], released: [...released] });
      return;
    }
    owed.completed.push(...completed);
    owed.failed.push(...failed);
    owed.released.push(...released);
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
