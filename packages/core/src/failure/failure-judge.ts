import { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { MessageDefinition } from '../contract/message-definition.js';
import { MessageProcessingStatus } from '../contract/message-processing-status.js';
import type { ClaimedMessage, FailedTry, FailureSettings, StreamFailurePolicy } from '../contract/work.js';
import { errorFingerprint } from './error-fingerprint.js';
import { failureText } from './failure-text.js';
import { PartialFailure, PermanentError, RetryLater } from './handler-errors.js';

/** Reasons that are the message's own fault: no other try of the same bytes can end otherwise. */
const permanentReasons = new Set<MessageFailureReason>([
  MessageFailureReason.MessageBodyTooLarge,
  MessageFailureReason.SerializationError,
  MessageFailureReason.ValidationError,
  MessageFailureReason.EmptyStreamId,
]);

/** True when a failure says something about its destination or type, and not only about the message. */
export function concernsOthers(reason: MessageFailureReason): boolean {
  return !permanentReasons.has(reason);
}

/** Turns errors into recorded failures, by the options and the message types' policies. */
export class FailureJudge {
  readonly settings: FailureSettings;
  readonly #deadLetterPermanent: boolean;
  readonly #policies: ReadonlyMap<string, StreamFailurePolicy>;

  constructor(settings: FailureSettings, deadLetterPermanent: boolean, definitions: readonly MessageDefinition[]) {
    this.settings = settings;
    this.#deadLetterPermanent = deadLetterPermanent;
    this.#policies = new Map(definitions.map((one) => [one.type, one.streamFailurePolicy ?? 'block']));
  }

  policyOf(messageType: string): StreamFailurePolicy {
    return this.#policies.get(messageType) ?? 'block';
  }

  /** A try that failed. `retryable` false means that the same bytes cannot succeed. */
  failed(
    row: ClaimedMessage,
    error: unknown,
    reason: MessageFailureReason,
    retryable = true,
    delayMs?: number,
  ): FailedTry {
    const own = reasonOf(error) ?? reason;
    const delay = error instanceof RetryLater ? error.delayMs : delayMs;
    const hopeless = error instanceof PermanentError || (!retryable && permanentReasons.has(own));
    return {
      messageId: row.messageId,
      attempts: row.attempts,
      completedStatus: MessageProcessingStatus.Stored | (error instanceof PartialFailure ? error.completedStatus : 0),
      error: failureText(error),
      reason: own,
      fingerprint: errorFingerprint(error),
      permanent: hopeless && this.#deadLetterPermanent,
      policy: this.policyOf(row.messageType),
      ...(delay === undefined ? {} : { delayMs: delay }),
    };
  }

  /**
   * A row to be given up without a try: it was claimed past the cap, because its holder died each time, or a dead letter of
   * its stream wants it to follow. `undefined` for a row to be tried.
   */
  givenUp(row: ClaimedMessage): FailedTry | undefined {
    const { maxAttempts } = this.settings;
    const pastCap = maxAttempts !== null && row.attempts > maxAttempts;
    if (!pastCap && !row.parked) {
      return undefined;
    }
    return {
      messageId: row.messageId,
      attempts: row.attempts,
      completedStatus: MessageProcessingStatus.None,
      error: pastCap
        ? (row.lastError ?? 'its tries ended without a result')
        : 'follows a dead letter of its stream (policy park), untried',
      reason: pastCap ? (row.lastReason as MessageFailureReason) : MessageFailureReason.MaxAttemptsExceeded,
      permanent: !pastCap,
      policy: row.parked ? 'park' : this.policyOf(row.messageType),
      untried: true,
    };
  }
}

function reasonOf(error: unknown): MessageFailureReason | undefined {
  return error instanceof PermanentError && error.reason !== MessageFailureReason.Unknown ? error.reason : undefined;
}
