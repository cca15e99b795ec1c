import {
  type DeadLetterEntry,
  DeadLetterRecoveryStatus,
  type DeadLetterRecoveryPolicy,
  type RecoveryPolicy,
  type StreamRecoveryMode,
} from '../contract/dead-letter.js';
import { MessageFailureReason } from '../contract/message-failure-reason.js';

const minutes = 60_000;
const hours = 60 * minutes;

function policy(
  name: string,
  maxRecoveryAttempts: number,
  cooldownMs: number,
  holdForReviewAfterExhaustion: boolean,
): RecoveryPolicy {
  return { name, maxRecoveryAttempts, cooldownMs, holdForReviewAfterExhaustion };
}

const held = policy('HoldForReview', 0, 0, true);

/** The default matrix. Reasons without a line are answered like `Unknown`. */
export const defaultPolicyByReason: ReadonlyMap<MessageFailureReason, RecoveryPolicy> = new Map([
  [MessageFailureReason.Throttled, policy('AggressiveRetry', 3, 30 * minutes, false)],
  [MessageFailureReason.TransportException, policy('MediumRetry', 3, 1 * hours, false)],
  [MessageFailureReason.LeaseExpired, policy('AggressiveRetry', 5, 0, false)],
  [MessageFailureReason.MaxAttemptsExceeded, policy('ConservativeRetry', 1, 6 * hours, true)],
  [MessageFailureReason.EventStorageFailure, held],
  [MessageFailureReason.ValidationError, held],
  [MessageFailureReason.SerializationError, held],
  [MessageFailureReason.TransportNotReady, policy('MediumRetry', 3, 30 * minutes, false)],
  [MessageFailureReason.Unknown, policy('OneShotThenHold', 1, 1 * hours, true)],
]);

export interface DefaultRecoveryPolicyOptions {
  /** Lines that replace those of the default matrix. */
  readonly policyByReason?: ReadonlyMap<MessageFailureReason, RecoveryPolicy>;
  /**
   * Which reason is looked up. `failureReason` (default) is why it was dead-lettered, most often `MaxAttemptsExceeded`;
   * `lastFailureReason` is what the last real failure was.
   */
  readonly reason?: 'failureReason' | 'lastFailureReason';
}

/** The policy by reason; to be replaced, or asked by another for what it does not decide itself. */
export class DefaultDeadLetterRecoveryPolicy implements DeadLetterRecoveryPolicy {
  readonly #policies: ReadonlyMap<MessageFailureReason, RecoveryPolicy>;
  readonly #reason: 'failureReason' | 'lastFailureReason';

  constructor(options: DefaultRecoveryPolicyOptions = {}) {
    this.#policies = new Map([...defaultPolicyByReason, ...(options.policyByReason ?? [])]);
    this.#reason = options.reason ?? 'failureReason';
  }

  getPolicy(entry: DeadLetterEntry): RecoveryPolicy {
    const reason = entry[this.#reason] ?? entry.failureReason;
    return this.#policies.get(reason) ?? this.#policies.get(MessageFailureReason.Unknown) ?? held;
  }

  getStreamMode(entry: DeadLetterEntry): StreamRecoveryMode {
    return entry.streamId === null ? 'PerMessage' : 'TailAware';
  }

  shouldRecover(entry: DeadLetterEntry): boolean {
    return (
      entry.recoveryStatus === DeadLetterRecoveryStatus.Pending ||
      entry.recoveryStatus === DeadLetterRecoveryStatus.Recovering
    );
  }
}
