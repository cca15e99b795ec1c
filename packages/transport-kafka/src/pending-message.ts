import type { ClassifiedCondition, OutgoingMessage, PublishOutcome } from '@whizbang/core/transport';
import { KafkaError, conditionOf, type Stage, messageOf } from './errors.js';
import type { SizedRecord } from './record.js';

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
export interface PendingMessage extends SizedRecord {
  readonly message: OutgoingMessage;
  readonly call: PublishCall;
  /** Its place in the batch. */
  readonly index: number;
  /** The same for messages of a stream that go to the same partition, whichever it is. */
  readonly lane: string;
  /** Why it cannot be sent; there is no record then. */
  readonly refusal: KafkaError | undefined;
  /** `waiting` for its turn, `sent` and not answered yet, or `settled`: its outcome is known and does not change. */
  state: 'waiting' | 'sent' | 'settled';
}

export const confirmed: PublishOutcome = { kind: 'confirmed' };
export const notAttempted: PublishOutcome = { kind: 'notAttempted' };

export function failed(error: unknown, stage: Stage = 'idle'): PublishOutcome {
  const reported =
    error instanceof KafkaError ? error : new KafkaError(messageOf(error), conditionOf(error, stage), { cause: error });
  const { reason, retryable }: Pick<ClassifiedCondition, 'reason' | 'retryable'> = reported;
  return { kind: 'failed', reason, retryable, error: reported };
}
