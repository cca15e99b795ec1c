import type { MessageFailureReason } from './message-failure-reason.js';
import type { MessageMetadata } from './message-metadata.js';

export const DeadLetterRecoveryStatus = {
  /** Waits for its cooldown, or for the worker. */
  Pending: 0,
  Recovering: 1,
  /** An operator has to look at it. */
  HoldForReview: 2,
  /** Back in its table; or, by now, delivered. */
  Recovered: 3,
  PermanentlyFailed: 4,
} as const;
export type DeadLetterRecoveryStatus = (typeof DeadLetterRecoveryStatus)[keyof typeof DeadLetterRecoveryStatus];

export const OperatorDisposition = {
  None: 0,
  /** One try, whatever the budget: an operator's retry, or a new generation's. */
  RetryNow: 1,
  HoldIndefinitely: 2,
  MarkPermanentlyFailed: 3,
} as const;
export type OperatorDisposition = (typeof OperatorDisposition)[keyof typeof OperatorDisposition];

/** A row of `wh_dead_letters`, without its bodies. */
export interface DeadLetterEntry {
  readonly deadLetterId: string;
  readonly sourceTable: 'wh_outbox' | 'wh_inbox';
  /** The message's id. */
  readonly sourceId: string;
  readonly streamId: string | null;
  readonly messageType: string;
  readonly destination: string | null;
  readonly failureReason: MessageFailureReason;
  /** What the last real failure was, beside `MaxAttemptsExceeded`. */
  readonly lastFailureReason: MessageFailureReason | null;
  readonly errorText: string | null;
  readonly errorFingerprint: string | null;
  readonly attempts: number;
  readonly deadLetteredAt: Date;
  readonly generation: string;
  readonly recoveryStatus: DeadLetterRecoveryStatus;
  /** Recoveries over the message's whole life. */
  readonly recoveryAttempts: number;
  /** Recoveries granted beyond the budget by operators and new generations. */
  readonly grantedAttempts: number;
  readonly nextRecoveryAt: Date | null;
  readonly recoveredAt: Date | null;
  /** Policy `park`: the rest of its stream follows it here until it is recovered. */
  readonly parksStream: boolean;
  readonly operatorDisposition: OperatorDisposition;
  readonly operatorNotes: string | null;
  readonly operatorActor: string | null;
  /** False: the bytes of a delivery that could not be read, which cannot come back by themselves. */
  readonly recoverable: boolean;
}

/** A dead letter whole. */
export interface DeadLetter extends DeadLetterEntry {
  /** The payload's JSON text; `null` for a delivery that could not be read. */
  readonly eventData: string | null;
  readonly rawBody: Buffer | null;
  readonly metadata: MessageMetadata;
}

/** How often and how soon dead letters of a kind come back. */
export interface RecoveryPolicy {
  /** For logs and metrics. */
  readonly name: string;
  /** Recoveries over the life of a message. */
  readonly maxRecoveryAttempts: number;
  /** Milliseconds before every recovery, the first included. */
  readonly cooldownMs: number;
  /** What becomes of it when the budget is spent: `true` held for an operator, `false` permanently failed. */
  readonly holdForReviewAfterExhaustion: boolean;
}

/** `TailAware`: the dead letters of one stream come back together, in their order. */
export type StreamRecoveryMode = 'PerMessage' | 'TailAware';

/** Decides about dead letters. Replace it, or wrap `DefaultDeadLetterRecoveryPolicy` and override what differs. */
export interface DeadLetterRecoveryPolicy {
  getPolicy(entry: DeadLetterEntry): RecoveryPolicy;
  getStreamMode(entry: DeadLetterEntry): StreamRecoveryMode;
  /** False: leave it alone this time. */
  shouldRecover(entry: DeadLetterEntry): boolean;
}
