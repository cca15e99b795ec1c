import { MessageFailureReason } from '../contract/message-failure-reason.js';

/** Thrown by a handler: trying again cannot help. The message goes to the dead letters at once, with this reason. */
export class PermanentError extends Error {
  override readonly name = 'PermanentError';
  readonly reason: MessageFailureReason;

  constructor(message: string, options: { cause?: unknown; reason?: MessageFailureReason } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.reason = options.reason ?? MessageFailureReason.Unknown;
  }
}

/** Thrown by a handler: try again after a while, whatever the backoff says. It counts as a try. */
export class RetryLater extends Error {
  override readonly name = 'RetryLater';
  /** Milliseconds to wait. */
  readonly delayMs: number;

  constructor(delayMs: number, message = `to be tried again in ${delayMs} ms`) {
    super(message);
    // 30 days: a delay beyond is a mistake of units, and PostgreSQL refuses infinity.
    this.delayMs = Number.isFinite(delayMs) ? Math.min(Math.max(delayMs, 0), 30 * 86_400_000) : 0;
  }
}

/**
 * Thrown by a handler that got part of its work done where a rollback does not reach, so that the next try can see it in
 * `context.status`.
 */
export class PartialFailure extends Error {
  override readonly name = 'PartialFailure';
  /** MessageProcessingStatus bits; they are added to the row's and never removed. Bits 3 to 14 are yours. */
  readonly completedStatus: number;

  constructor(completedStatus: number, message: string, options: { cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.completedStatus = completedStatus & 0x7fff;
  }
}
