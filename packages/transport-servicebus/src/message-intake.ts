import type { ServiceBusReceivedMessage, ServiceBusReceiver } from '@azure/service-bus';
import { classification } from './classification.js';
import type { LiveConnection } from './connection.js';
import { classify } from './errors.js';
import { type HeldDelivery, decodeDelivery, isWanted, renewalMs } from './held-delivery.js';
import type { Intake, IntakeSettings } from './intake.js';
import { openReceiver } from './open-receiver.js';
import { settledWithin } from './wait.js';

const lookMs = 1000;
const closeMs = 1000;

/** A message in hand. */
interface LockedMessage {
  readonly message: ServiceBusReceivedMessage;
  /** Lets the broker send another one in its place. */
  readonly makeRoom: () => void;
  renewAt: number;
  lost: boolean;
}

/** Receives from a subscription or queue without sessions: message by message, shared with all who receive from it. */
export class MessageIntake implements Intake {
  readonly ended: Promise<Error>;
  readonly #settings: IntakeSettings;
  readonly #receiver: ServiceBusReceiver;
  readonly #inHand = new Set<LockedMessage>();
  readonly #timer: NodeJS.Timeout;
  readonly #whenClosed: Promise<void>;
  #tellClosed: () => void = () => undefined;
  #closed = false;

  constructor(live: LiveConnection, settings: IntakeSettings) {
    this.#settings = settings;
    this.#whenClosed = new Promise((resolve) => (this.#tellClosed = resolve));
    this.#receiver = openReceiver(live, settings);
    this.ended = new Promise((resolve) => {
      this.#receiver.subscribe(
        {
          processMessage: (message) => this.#take(message),
          // It would go on trying by itself, and tell of each attempt; it is simpler to make another one.
          processError: async ({ error }) => resolve(error),
        },
        { autoCompleteMessages: false, maxConcurrentCalls: settings.prefetch },
      );
    });
    this.#timer = setInterval(() => this.#renewLocks(), lookMs);
  }

  get idle(): boolean {
    return this.#inHand.size === 0;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    for (const locked of this.#inHand) locked.lost = true;
    this.#tellClosed();
    await settledWithin(this.#receiver.close(), closeMs);
  }

  #take(message: ServiceBusReceivedMessage): Promise<void> {
    if (this.#closed) return new Promise(() => undefined);
    return new Promise((resolve) => {
      const locked: LockedMessage = { message, makeRoom: resolve, renewAt: 0, lost: false };
      locked.renewAt = this.#nextRenewal(message.lockedUntilUtc);
      this.#inHand.add(locked);
      const held: HeldDelivery = {
        delivery: decodeDelivery(message, this.#settings.destination),
        get lost() {
          return locked.lost;
        },
        complete: () => this.#settle(locked, () => this.#receiver.completeMessage(message)),
        abandon: () => this.#settle(locked, () => this.#receiver.abandonMessage(message)),
      };
      if (isWanted(held.delivery, this.#settings.messageTypes)) this.#settings.deliver(held);
      else void held.complete();
    });
  }

  /** What cannot be settled comes again. The SDK goes on waiting for an answer on a link that is gone. */
  async #settle(locked: LockedMessage, settling: () => Promise<void>): Promise<void> {
    if (!locked.lost) await Promise.race([settling(), this.#whenClosed]).catch(() => undefined);
    this.#drop(locked);
  }

  #drop(locked: LockedMessage): void {
    this.#inHand.delete(locked);
    if (!this.#closed) locked.makeRoom();
  }

  #nextRenewal(lockedUntil: Date | undefined): number {
    return performance.now() + renewalMs(lockedUntil, this.#settings.lockRenewalMs);
  }

  #renewLocks(): void {
    const now = performance.now();
    for (const locked of this.#inHand) if (now >= locked.renewAt) void this.#renew(locked);
  }

  async #renew(locked: LockedMessage): Promise<void> {
    // Not again before there is an answer.
    locked.renewAt = Infinity;
    try {
      locked.renewAt = this.#nextRenewal(await this.#receiver.renewMessageLock(locked.message));
    } catch (error) {
      locked.renewAt = 0;
      if (classify(error) !== classification.lockLost) return;
      locked.lost = true;
      this.#drop(locked);
    }
  }
}
