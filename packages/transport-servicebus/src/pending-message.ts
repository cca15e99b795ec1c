import type { ServiceBusMessage } from '@azure/service-bus';
import type { OutgoingMessage, PublishOutcome } from '@whizbang/core/transport';
import { type Classification, ServicebusError, askedToWaitMs } from './errors.js';
import type { Lane } from './lane.js';

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
  /** What is sent for it, or why it can never be. */
  readonly encoded: ServiceBusMessage | ServicebusError;
  readonly lane: Lane;
  readonly call: PublishCall;
  /** Its place in the batch. */
  readonly index: number;
  /** `waiting` for its turn, `sent` and not answered yet, or `settled`: its outcome is known and does not change. */
  state: 'waiting' | 'sent' | 'settled';
}

export const confirmed: PublishOutcome = { kind: 'confirmed' };
export const notAttempted: PublishOutcome = { kind: 'notAttempted' };

/** @param error What to report: an error as it is, or a sentence, with what caused it. */
export function failed({ reason, retryable }: Classification, error: unknown, cause?: unknown): PublishOutcome {
  const reported =
    error instanceof Error ? error : new ServicebusError(String(error), { reason, retryable }, { cause });
  const retryAfterMs = error instanceof ServicebusError ? error.retryAfterMs : askedToWaitMs(error);
  return {
    kind: 'failed',
    reason,
    retryable,
    error: reported,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}
