import type { Logger } from '../contract/logger.js';
import { after, monotonicMs } from '../runtime/clock.js';
import { WakeSignal } from '../runtime/wake-signal.js';
import type { DoorbellChannel } from './doorbell-listener.js';
import type { DoorbellStore } from './doorbell-store.js';

interface SleeperSettings {
  readonly channel: DoorbellChannel;
  readonly store: DoorbellStore;
  readonly holder: () => string;
  /** Whether rings arrive. */
  readonly listening: () => boolean;
  readonly safetyPollMs: number;
  readonly fallbackPollMs: number;
  readonly logger: Logger;
}

// Looks again this soon after running dry, before it arms the doorbell: arming and disarming cost two commits, and while it is
// armed every commit of a producer queues for the lock of NOTIFY. A worker must therefore stay awake under a steady load, also
// a slow one: with 17 ms in all, commits that came 10 to 20 ms apart met an armed doorbell, which kept them that far apart.
// At 50 messages a second on a busy machine 77 ms took the median latency from 277 and 314 to 137 and 117 ms (two interleaved pairs).
const briefPollsMs = [2, 5, 10, 20, 40];

// Rings that led to nothing: so many are heard at once, as where one worker of several gets all there is. Anybody in the
// database may NOTIFY, and from then on each that leads to nothing doubles the time until the next is heard, from 1 ms.
const freeRingsInVain = 8;
// Who is not rung for so long begins anew.
const quietMs = 2_000;

type State =
  | { readonly kind: 'awake'; readonly polls: number }
  /** Armed, while a writer may still be under way that saw the doorbell unarmed. */
  | { readonly kind: 'armed'; readonly horizon: bigint; readonly waitMs: number }
  | { readonly kind: 'parked' };

/**
 * How a worker that found no work waits. It polls briefly, arms the doorbell, keeps looking until every writer that may
 * have seen it unarmed has ended, and then sleeps until it is rung, something becomes due, or the safety poll.
 *
 * No wake-up is lost: a writer inserts first and looks at the doorbells second. Either it sees ours and rings, or its
 * transaction began before our arming had committed; then it has ended once `pg_snapshot_xmin` reaches the `xmax` of
 * a snapshot taken after that commit, and the look for work that follows sees its rows.
 */
export class Sleeper {
  readonly #settings: SleeperSettings;
  readonly #wake = new WakeSignal();
  #state: State = { kind: 'awake', polls: 0 };
  #rungInVain = 0;
  #lastRingMs = Number.NEGATIVE_INFINITY;
  /** A notification has ended a wait, and the look that follows has not ended yet. */
  #heard = false;
  #closed = false;
  #hearingLater: { cancel(): void } | undefined;
  #disarming: Promise<void> = Promise.resolve();

  constructor(settings: SleeperSettings) {
    this.#settings = settings;
  }

  /** Ends the sleep: local work, or stop. */
  ring(): void {
    this.#wake.ring();
  }

  /**
   * Ends the sleep for a notification; at once, unless many before it led to nothing. A doorbell that is always rung in
   * vain becomes as good as none: the worker looks every `fallbackPollMs`, and whoever rings it can do no more.
   */
  hear(): void {
    const now = monotonicMs();
    if (now - this.#lastRingMs > quietMs) {
      this.#rungInVain = 0;
    }
    this.#lastRingMs = now;
    if (this.#hearingLater !== undefined || this.#closed) {
      return;
    }
    const excess = this.#rungInVain - freeRingsInVain;
    if (excess <= 0) {
      this.#hearNow();
      return;
    }
    this.#hearingLater = after(Math.min(2 ** (excess - 1), this.#settings.fallbackPollMs), () => {
      this.#hearingLater = undefined;
      this.#hearNow();
    });
  }

  /** To be called when work was found. */
  foundWork(): void {
    this.#rungInVain = 0;
    this.#heard = false;
    this.#awake();
  }

  /**
   * Waits after a look that found nothing; the caller looks again when it returns.
   *
   * @param dueMs - milliseconds until something is known to become due, `null` when nothing is
   */
  async sleep(dueMs: number | null): Promise<void> {
    const { fallbackPollMs, safetyPollMs, listening } = this.#settings;
    this.#countRing();
    const state = this.#state;
    const untilDueMs = dueMs === null ? safetyPollMs : Math.max(dueMs, 1);
    if (state.kind === 'awake') {
      const pollMs = briefPollsMs[state.polls];
      if (pollMs !== undefined) {
        this.#state = { kind: 'awake', polls: state.polls + 1 };
        await this.#wake.wait(Math.min(pollMs, untilDueMs));
      } else if (listening()) {
        await this.#arm();
      } else {
        await this.#wake.wait(Math.min(fallbackPollMs, untilDueMs));
      }
      return;
    }
    if (!listening()) {
      this.#awake();
      return;
    }
    if (state.kind === 'armed') {
      await this.#guard(state);
      return;
    }
    if (await this.#wake.wait(Math.min(safetyPollMs, untilDueMs))) {
      this.#awake();
    }
  }

  /** Waits for `ring` alone, for a worker that may not look at the moment. Returns whether it was rung. */
  waitForRing(ms: number): Promise<boolean> {
    return this.#wake.wait(ms);
  }

  /** Leaves the doorbell unarmed. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#hearingLater?.cancel();
    this.#awake();
    await this.#disarming;
  }

  #hearNow(): void {
    this.#heard = true;
    this.#wake.ring();
  }

  // Whoever goes to sleep has found nothing.
  #countRing(): void {
    if (this.#heard) {
      this.#heard = false;
      this.#rungInVain += 1;
    }
  }

  #awake(): void {
    if (this.#state.kind !== 'awake') {
      this.#disarm();
    }
    this.#state = { kind: 'awake', polls: 0 };
  }

  async #arm(): Promise<void> {
    await this.#disarming;
    const horizon = await this.#settings.store.arm(this.#settings.channel, this.#settings.holder());
    this.#state = { kind: 'armed', horizon, waitMs: 5 };
  }

  async #guard(state: { horizon: bigint; waitMs: number }): Promise<void> {
    if (await this.#settings.store.hasPassed(state.horizon)) {
      // One more look, whose snapshot is later than the end of those writers, and then the sleep is safe.
      this.#state = { kind: 'parked' };
      return;
    }
    this.#state = { kind: 'armed', horizon: state.horizon, waitMs: Math.min(state.waitMs * 2, 1_000) };
    if (await this.#wake.wait(state.waitMs)) {
      this.#awake();
    }
  }

  // Not awaited by the worker: the claim that follows a ring must not wait for it. A doorbell that stays armed for lack
  // of a connection costs notifications, not messages.
  #disarm(): void {
    const { store, channel, holder, logger } = this.#settings;
    this.#disarming = store.disarm(channel, holder()).catch((error: unknown) => {
      logger.debug({ error: String(error), channel }, 'The doorbell could not be disarmed');
    });
  }
}
