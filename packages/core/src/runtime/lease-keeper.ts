import type { Logger } from '../contract/logger.js';
import type { ClaimedTry } from '../contract/work.js';
import { monotonicMs } from './clock.js';

interface Held {
  readonly holder: string;
  readonly attempts: number;
  renewals: number;
  renewedAt: number;
}

type Renew = (holder: string, tries: readonly ClaimedTry[]) => Promise<readonly string[]>;

/**
 * Renews the leases of rows in hand: every third of a lease, those that have not been renewed for that long. A healthy
 * publisher never has a row in hand for so long, so this costs it nothing.
 *
 * It also knows which leases have run out here, by a clock that goes on while the process is stopped or busy: what it had in
 * hand then may be somebody else's by now, and must not be begun any more.
 */
export class LeaseKeeper {
  readonly #held = new Map<string, Held>();
  readonly #leaseMs: number;
  readonly #intervalMs: number;
  readonly #logger: Logger;
  readonly #renew: Renew;
  readonly #limit: { readonly maxRenewals: number; readonly onEnding: (messageId: string) => void };
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<void> = Promise.resolve();

  /**
   * @param limit - after so many renewals, when the row turns out to be somebody else's, or when its lease has run out
   * because it could not be renewed, `onEnding` is called once for each try
   */
  constructor(
    leaseSeconds: number,
    logger: Logger,
    renew: Renew,
    limit: { maxRenewals: number; onEnding: (messageId: string) => void } = {
      maxRenewals: Infinity,
      onEnding: () => undefined,
    },
  ) {
    this.#leaseMs = leaseSeconds * 1000;
    this.#intervalMs = this.#leaseMs / 3;
    this.#logger = logger;
    this.#renew = renew;
    this.#limit = limit;
  }

  get held(): number {
    return this.#held.size;
  }

  /** @param sinceMs - when the claim was sent: the lease began no earlier, and its answer may have waited long to be read */
  hold(holder: string, rows: readonly ClaimedTry[], sinceMs: number): void {
    for (const row of rows) {
      const held = this.#held.get(row.messageId);
      if (held?.holder !== holder || held.attempts !== row.attempts) {
        // Claimed again by this very process, before it has noticed that the lease of the try before had run out.
        this.#end(row.messageId);
        this.#held.set(row.messageId, { holder, attempts: row.attempts, renewals: 0, renewedAt: sinceMs });
      }
    }
    this.#timer ??= setInterval(() => {
      // At once, not behind a renewal that the database does not answer.
      this.#endExpired();
      this.#renewing = this.#renewing.then(() => this.#renewOld());
    }, this.#intervalMs).unref();
  }

  drop(rows: readonly ClaimedTry[]): void {
    for (const row of rows) {
      if (this.#held.get(row.messageId)?.attempts === row.attempts) {
        this.#held.delete(row.messageId);
      }
    }
  }

  /** Whether the lease under which a row was claimed still runs. */
  holds(row: ClaimedTry): boolean {
    const held = this.#held.get(row.messageId);
    return held?.attempts === row.attempts && monotonicMs() - held.renewedAt < this.#leaseMs;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #endExpired(): void {
    const now = monotonicMs();
    for (const [messageId, held] of this.#held) {
      if (now - held.renewedAt >= this.#leaseMs) {
        this.#end(messageId);
      }
    }
  }

  async #renewOld(): Promise<void> {
    const byHolder = new Map<string, ClaimedTry[]>();
    const now = monotonicMs();
    for (const [messageId, held] of this.#held) {
      if (now - held.renewedAt < this.#intervalMs * 0.9) {
        continue;
      }
      if (held.renewals >= this.#limit.maxRenewals) {
        this.#end(messageId);
        continue;
      }
      const tries = byHolder.get(held.holder) ?? [];
      tries.push({ messageId, attempts: held.attempts });
      byHolder.set(held.holder, tries);
    }
    for (const [holder, tries] of byHolder) {
      try {
        const lost = new Set(await this.#renew(holder, tries));
        for (const { messageId } of tries) {
          const held = this.#held.get(messageId);
          if (held !== undefined && !lost.has(messageId)) {
            held.renewedAt = now;
            held.renewals += 1;
          }
        }
        for (const messageId of lost) {
          this.#end(messageId);
        }
      } catch (error) {
        // The lease still has two thirds to run; the next interval tries again.
        this.#logger.debug({ error: String(error) }, 'Leases could not be renewed');
      }
    }
  }

  #end(messageId: string): void {
    if (this.#held.delete(messageId)) {
      this.#limit.onEnding(messageId);
    }
  }
}
