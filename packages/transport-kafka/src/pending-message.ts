import type { ClassifiedCondition, PendingPublish, PublishOutcome } from '@whizbang/core/transport';
import { KafkaError, conditionOf, type Stage, messageOf } from './errors.js';
import type { SizedRecord } from './record.js';

/** A message on its way through the publisher. */
export interface PendingMessage extends PendingPublish<PendingMessage>, SizedRecord {
  /** The same for messages of a stream that go to the same partition, whichever it is. */
  readonly lane: string;
  /** Why it cannot be sent; there is no record then. */
  readonly refusal: KafkaError | undefined;
}

export function failed(error: unknown, stage: Stage = 'idle'): PublishOutcome {
  const reported =
    error instanceof KafkaError ? error : new KafkaError(messageOf(error), conditionOf(error, stage), { cause: error });
  const { reason, retryable }: Pick<ClassifiedCondition, 'reason' | 'retryable'> = reported;
  return { kind: 'failed', reason, retryable, error: reported };
}
