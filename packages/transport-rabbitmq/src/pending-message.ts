import type { PendingPublish, PublishOutcome } from '@whizbang/core/transport';
import type { LiveConnection } from './connection.js';
import { type Classification, RabbitmqError } from './errors.js';

/** A message on its way through the publisher. */
export interface PendingMessage extends PendingPublish<PendingMessage> {
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

/** @param error What to report: an error as it is, or a sentence, with what caused it. */
export function failed({ reason, retryable }: Classification, error: unknown, cause?: unknown): PublishOutcome {
  const reported =
    error instanceof Error ? error : new RabbitmqError(String(error), { reason, retryable }, cause ? { cause } : {});
  return { kind: 'failed', reason, retryable, error: reported };
}
