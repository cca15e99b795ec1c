import type { OutgoingMessage, PublishOutcome } from '../contract/transport.js';
import { settlesWithin } from '../runtime/clock.js';

export const confirmed: PublishOutcome = { kind: 'confirmed' };
export const notAttempted: PublishOutcome = { kind: 'notAttempted' };

/** A message on its way through a publisher; an adapter adds what its broker needs: `interface PendingMessage extends PendingPublish<PendingMessage>`. */
export interface PendingPublish<Pending> {
  readonly message: OutgoingMessage;
  readonly call: PublishCall<Pending>;
  /** Its place in the batch. */
  readonly index: number;
  /** `waiting` for its turn, `sent` and not answered yet, or `settled`: its outcome is known and does not change. */
  state: 'waiting' | 'sent' | 'settled';
}

/** One call of `publish`: collects the outcomes of its messages and ends when it has them all. */
export class PublishCall<Pending> {
  readonly messages: Pending[] = [];
  readonly signal: AbortSignal;
  readonly #outcomes: PublishOutcome[] = [];
  readonly #done: (outcomes: PublishOutcome[]) => void;
  #open: number;

  constructor(size: number, signal: AbortSignal, done: (outcomes: PublishOutcome[]) => void) {
    this.#open = size;
    this.signal = signal;
    this.#done = done;
  }

  settled(index: number, outcome: PublishOutcome): void {
    this.#outcomes[index] = outcome;
    this.#open -= 1;
    if (this.#open === 0) this.#done(this.#outcomes);
  }
}

/** The calls of `publish` that are under way. When the signal of one aborts, what it has not sent yet is released. */
export class PublishCalls<Pending extends Pick<PendingPublish<Pending>, 'state'>> {
  readonly #release: (pending: Pending) => void;
  readonly #onEnd: () => void;
  readonly #calls = new Map<PublishCall<Pending>, Promise<PublishOutcome[]>>();
  readonly #signals = new Map<AbortSignal, { calls: number; readonly onAbort: () => void }>();

  /**
   * @param release Settles a message that waits for its turn.
   * @param onEnd Called when a call has all its outcomes, and whoever awaits them has not had a turn yet.
   */
  constructor(release: (pending: Pending) => void, onEnd: () => void = () => undefined) {
    this.#release = release;
    this.#onEnd = onEnd;
  }

  /** How many are under way. */
  get size(): number {
    return this.#calls.size;
  }

  /** A call of `size` messages, one at least, which the caller adds to it. */
  begin(
    size: number,
    signal: AbortSignal,
  ): { readonly call: PublishCall<Pending>; readonly outcomes: Promise<PublishOutcome[]> } {
    let resolve!: (outcomes: PublishOutcome[]) => void;
    const outcomes = new Promise<PublishOutcome[]>((done) => (resolve = done));
    const call = new PublishCall<Pending>(size, signal, (all) => {
      this.#calls.delete(call);
      this.#forget(signal);
      resolve(all);
      this.#onEnd();
    });
    this.#calls.set(call, outcomes);
    this.#listen(signal);
    return { call, outcomes };
  }

  /** Releases what no call has sent yet. */
  releaseUnsent(): void {
    for (const call of this.#calls.keys()) this.#releaseUnsentOf(call);
  }

  /** Waits up to `ms` until all have ended. */
  async ended(ms: number): Promise<void> {
    await settlesWithin(Promise.all(this.#calls.values()), ms);
  }

  /** One listener for all calls with one signal: Node warns of a leak at the eleventh. */
  #listen(signal: AbortSignal): void {
    const known = this.#signals.get(signal);
    if (known !== undefined) {
      known.calls += 1;
      return;
    }
    const onAbort = (): void => {
      for (const call of this.#calls.keys()) if (call.signal === signal) this.#releaseUnsentOf(call);
    };
    signal.addEventListener('abort', onAbort);
    this.#signals.set(signal, { calls: 1, onAbort });
  }

  #forget(signal: AbortSignal): void {
    const known = this.#signals.get(signal);
    if (known === undefined) return;
    known.calls -= 1;
    if (known.calls > 0) return;
    signal.removeEventListener('abort', known.onAbort);
    this.#signals.delete(signal);
  }

  #releaseUnsentOf(call: PublishCall<Pending>): void {
    for (const pending of call.messages) {
      if (pending.state === 'waiting') this.#release(pending);
    }
  }
}
