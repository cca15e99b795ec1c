import type { ServiceBusReceivedMessage, ServiceBusReceiver } from '@azure/service-bus';
import { classification } from './classification.js';
import type { LiveConnection } from './live-connection.js';
import { classify } from './errors.js';
import { type HeldDelivery, decodeDelivery, renewalMs } from './held-delivery.js';

/** A message in hand. */
interface LockedMessage {
  readonly message: ServiceBusReceivedMessage;
  /** Lets the broker send another one in its place. */
  readonly makeRoom: () => void;
  renewAt: number;
  /** It is done with, and the broker may not know yet. */
  completed: boolean;
  lost: boolean;
}

/** A receiver, and the connection it is on. */
interface Way {
  readonly receiver: ServiceBusReceiver;
  readonly live: LiveConnection;
}

/**
 * The messages that a service has locked one by one, and their locks. These outlive the connection they came over: the
 * broker gives a message to nobody else before its lock has run out, and takes its settlement over any connection.
 */
export class LockedMessages {
  readonly #destination: string;
  readonly #lockRenewalMs: number;
  readonly #inHand = new Set<LockedMessage>();
  #way: Way | undefined;

  constructor(destination: string, lockRenewalMs: number) {
    this.#destination = destination;
    this.#lockRenewalMs = lockRenewalMs;
  }

  get size(): number {
    return this.#inHand.size;
  }

  /** Locks are renewed and messages settled this way from now on; first those that could not be before. */
  use(way: Way): void {
    this.#way = way;
    for (const locked of this.#inHand) {
      // Whether it is still locked is what renewing will tell.
      locked.renewAt = 0;
      if (locked.completed) void this.#complete(locked);
    }
  }

  add(message: ServiceBusReceivedMessage, makeRoom: () => void): HeldDelivery {
    const locked: LockedMessage = { message, makeRoom, renewAt: 0, completed: false, lost: false };
    locked.renewAt = this.#nextRenewal(message.lockedUntilUtc);
    this.#inHand.add(locked);
    return {
      delivery: decodeDelivery(message, this.#destination),
      get lost() {
        return locked.lost;
      },
      tried: false,
      complete: () => this.#complete(locked),
    };
  }

  /** To be called once or twice a second. */
  renew(): void {
    const now = performance.now();
    for (const locked of this.#inHand) if (now >= locked.renewAt && !locked.completed) void this.#renew(locked);
  }

  /** Gives everything back, which would else be nobody's until its lock runs out. */
  async abandonAll(): Promise<void> {
    const left = [...this.#inHand].filter(({ completed }) => !completed);
    await Promise.all(
      left.map(async (locked) => {
        await this.#try(({ receiver }) => receiver.abandonMessage(locked.message));
        this.#drop(locked);
      }),
    );
  }

  async #complete(locked: LockedMessage): Promise<void> {
    if (!this.#inHand.has(locked)) return;
    locked.completed = true;
    const answered = await this.#try(({ receiver }) => receiver.completeMessage(locked.message));
    if (answered) this.#drop(locked);
  }

  /**
   * What the broker refuses was locked no longer, and comes again.
   * @returns false when the connection was lost before there was an answer
   */
  async #try(settling: (way: Way) => Promise<void>): Promise<boolean> {
    const way = this.#way;
    if (way === undefined || way.live.endedBy !== undefined) return false;
    await Promise.race([settling(way), way.live.ended]).catch(() => undefined);
    return way.live.endedBy === undefined;
  }

  #drop(locked: LockedMessage): void {
    this.#inHand.delete(locked);
    locked.makeRoom();
  }

  #nextRenewal(lockedUntil: Date | undefined): number {
    return performance.now() + renewalMs(lockedUntil, this.#lockRenewalMs);
  }

  async #renew(locked: LockedMessage): Promise<void> {
    const way = this.#way;
    if (way === undefined || way.live.endedBy !== undefined) return;
    // Not again before there is an answer.
    locked.renewAt = Infinity;
    try {
      locked.renewAt = this.#nextRenewal(await way.receiver.renewMessageLock(locked.message));
    } catch (error) {
      locked.renewAt = 0;
      if (locked.completed || classify(error) !== classification.lockLost) return;
      locked.lost = true;
      this.#drop(locked);
    }
  }
}
