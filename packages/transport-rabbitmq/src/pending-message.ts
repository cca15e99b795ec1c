import type { OutgoingMessage, PublishOutcome } from '@whizbang/core/transport';
import type { LiveConnection } from './connection.js';
import { type Classification, RabbitmqError } from './errors.js';

/** One call of `publish`: collects the outcomes of its messages and ends when it has them all. */
export class PublishCall {
  readonly messages: PendingMessage[] = [];
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

/** A message on its way through the publisher. */
export interface PendingMessage {
  readonly message: OutgoingMessage;
  readonly call: PublishCall;
  /** Its place in the batch. */
  readonly index: number;
  /** `waiting` for its turn, `sent` and not confirmed yet, or `settled`: its outcome is known and does not change. */
  state: 'waiting' | 'sent' | 'settled';
  /** It was sent on a channel that has ended since, so the broker may have it. */
  maybeStored: boolean;
  /** When it was sent, on the monotonic clock, in ms. */
  sentAt: number;
  /** The broker had no queue for it; the confirm that follows says only that it was dropped properly. */
  returned: boolean;
}

/** What the channel of a destination needs of the publisher. */
export interface PublishDesk {
  readonly live: LiveConnection | undefined;
  readonly ready: boolean;
  readonly blockedByBroker: boolean;
  readonly maxMessageBytes: number | null;
  settle(pending: PendingMessage, outcome: PublishOutcome): void;
  release(pending: PendingMessage): void;
  learnMaxMessageBytes(limit: number): void;
}

export const confirmed: PublishOutcome = { kind: 'confirmed' };

/** @param error What to report: an error as it is, or a sentence, with what caused it. */
export function failed({ reason, retryable }: Classification, error: unknown, cause?: unknown): PublishOutcome {
  const reported =
    error instanceof Error ? error : new RabbitmqError(String(error), { reason, retryable }, cause ? { cause } : {});
  return { kind: 'failed', reason, retryable, error: reported };
}
