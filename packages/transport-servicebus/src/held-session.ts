import { settlesWithin } from '@whizbang/core/transport';
import type { ServiceBusReceivedMessage, ServiceBusSessionReceiver } from '@azure/service-bus';
import { classification } from './classification.js';
import type { CreditBudget } from './credit-budget.js';
import { classify } from './errors.js';
import { type HeldDelivery, decodeDelivery, isWanted, renewalMs } from './held-delivery.js';
import { forgetSettlements } from './sdk-internals.js';

// A session without messages is kept this long, in case more come; while others wait for their turn, only as long as
// messages of one batch may lie apart.
const idleMs = 500;
const crowdedIdleMs = 30;
// How long a session that never runs empty is kept while others wait.
const turnMs = 2000;
const closeMs = 1000;

/** What a session needs of those who share a subscription with it. */
export interface SessionHome {
  readonly destination: string;
  readonly messageTypes: ReadonlySet<string>;
  readonly budget: CreditBudget;
  /** Credits that a session begins with, where there are so many. */
  readonly share: number;
  readonly lockRenewalMs: number;
  /** True while sessions may be waiting that could be accepted if this one were given up. */
  readonly crowded: boolean;
  deliver(held: HeldDelivery): void;
  sessionEnded(session: HeldSession): void;
}

/** A session that we hold: its messages, its lock, and when to let go of it. */
export class HeldSession {
  readonly #receiver: ServiceBusSessionReceiver;
  readonly #home: SessionHome;
  readonly #startedAt = performance.now();
  /** Credits of the budget that are with this session: for messages in hand, and for those that the broker may send. */
  #credits = 1;
  readonly #inHand = new Map<HeldDelivery, ServiceBusReceivedMessage>();
  #received = false;
  #lastMessageAt = this.#startedAt;
  #renewAt: number;
  #renewing = false;
  /** No more is asked for; it ends when what is in hand is done. */
  #finishing = false;
  #lost = false;
  #ended = false;
  #idleTimer: NodeJS.Timeout | undefined;
  readonly #whenEnded: Promise<void>;
  #tellEnded: () => void = () => undefined;

  /** @param receiver With one credit of the budget taken for it. */
  constructor(receiver: ServiceBusSessionReceiver, home: SessionHome) {
    this.#receiver = receiver;
    this.#home = home;
    this.#whenEnded = new Promise((resolve) => (this.#tellEnded = resolve));
    this.#renewAt = this.#nextRenewal();
    while (this.#credits < home.share && home.budget.tryTake()) this.#credits += 1;
  }

  start(): void {
    try {
      this.#receiver.subscribe(
        {
          processMessage: (message) => this.#take(message),
          // The lock is lost, or link or connection are.
          processError: async () => this.#end(true),
        },
        { autoCompleteMessages: false, maxConcurrentCalls: this.#credits },
      );
    } catch {
      this.#end(true);
    }
  }

  /** To be called once or twice a second. */
  look(): void {
    const now = performance.now();
    if (this.#receiver.isClosed) {
      this.#end(true);
      return;
    }
    if (this.#home.crowded && now - this.#startedAt > turnMs) this.finish();
    else if (this.#inHand.size === 0 && now - this.#lastMessageAt > idleMs) this.#end(false);
    else if (now >= this.#renewAt) void this.#renew();
  }

  /** Others have come to wait. */
  hurry(): void {
    // One that was accepted a moment ago has a message, which is on its way.
    if (this.#inHand.size === 0 && this.#received) this.#endSoon();
  }

  /** Asks for nothing more, and ends when everything in hand is done. */
  finish(): void {
    this.#finishing = true;
    if (this.#inHand.size === 0) this.#end(false);
  }

  /** Ends now. What is in hand is for the broker to deliver again; it counts what was tried. */
  async close(): Promise<void> {
    if (!this.#ended) await settlesWithin(this.#abandonTried(), closeMs);
    this.#end(true);
    await settlesWithin(this.#receiver.close(), closeMs);
  }

  #take(message: ServiceBusReceivedMessage): Promise<void> {
    // Its credit is not given back.
    if (this.#ended) return new Promise(() => undefined);
    this.#lastMessageAt = performance.now();
    this.#received = true;
    clearTimeout(this.#idleTimer);
    // While the budget lasts, the broker may send one more for each that has come.
    const grown = !this.#finishing && this.#home.budget.tryTake();
    if (grown) this.#credits += 1;
    return new Promise((resolve) => {
      const held = this.#held(message, () => {
        this.#inHand.delete(held);
        if (this.#ended) return;
        if (grown) {
          this.#credits -= 1;
          this.#home.budget.giveBack(1);
        } else if (!this.#finishing) resolve();
        if (this.#inHand.size > 0) return;
        if (this.#finishing) this.#end(false);
        else if (this.#home.crowded) this.#endSoon();
      });
      this.#inHand.set(held, message);
      if (grown) resolve();
      if (isWanted(held.delivery, this.#home.messageTypes)) this.#home.deliver(held);
      else void held.complete();
    });
  }

  #held(message: ServiceBusReceivedMessage, settled: () => void): HeldDelivery {
    const isLost = (): boolean => this.#lost;
    return {
      delivery: decodeDelivery(message, this.#home.destination),
      get lost() {
        return isLost();
      },
      tried: false,
      complete: async () => {
        if (isLost()) return;
        try {
          await this.#untilEnded(this.#receiver.completeMessage(message));
        } catch {
          // A session whose messages cannot be settled is of no use any more.
          this.#end(true);
        }
        settled();
      },
    };
  }

  async #abandonTried(): Promise<void> {
    const tried = [...this.#inHand].filter(([held]) => held.tried);
    await Promise.all(
      tried.map(([, message]) => this.#untilEnded(this.#receiver.abandonMessage(message)).catch(() => undefined)),
    );
  }

  /** The SDK goes on waiting for an answer on a link that is gone. */
  #untilEnded(settling: Promise<void>): Promise<void> {
    return Promise.race([settling, this.#whenEnded]);
  }

  #endSoon(): void {
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => {
      if (this.#inHand.size === 0 && this.#home.crowded) this.#end(false);
    }, crowdedIdleMs);
  }

  #end(lost: boolean): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#lost = lost;
    clearTimeout(this.#idleTimer);
    this.#tellEnded();
    forgetSettlements(this.#receiver);
    this.#home.budget.giveBack(this.#credits);
    void settlesWithin(this.#receiver.close(), closeMs).then(() => this.#home.sessionEnded(this));
  }

  #nextRenewal(): number {
    return performance.now() + renewalMs(this.#receiver.sessionLockedUntilUtc, this.#home.lockRenewalMs);
  }

  async #renew(): Promise<void> {
    if (this.#renewing) return;
    this.#renewing = true;
    try {
      await this.#receiver.renewSessionLock();
      this.#renewAt = this.#nextRenewal();
    } catch (error) {
      if (classify(error) === classification.lockLost) this.#end(true);
      // Otherwise it is tried again at the next look.
    } finally {
      this.#renewing = false;
    }
  }
}
