import {
  type DeadLetterEntry,
  type DeadLetterRecoveryPolicy,
  DefaultDeadLetterRecoveryPolicy,
  type RecoveryPolicy,
  type StreamRecoveryMode,
} from '@whizbang/core';

/** Stock adjustments come back five times, two hours apart; all else as by default. */
export class InventoryPolicy implements DeadLetterRecoveryPolicy {
  readonly #fallback = new DefaultDeadLetterRecoveryPolicy();

  getPolicy(entry: DeadLetterEntry): RecoveryPolicy {
    if (entry.messageType.startsWith('inventory.adjust')) {
      return {
        name: 'InventorySpecific',
        maxRecoveryAttempts: 5,
        cooldownMs: 2 * 3_600_000,
        holdForReviewAfterExhaustion: true,
      };
    }
    return this.#fallback.getPolicy(entry);
  }

  getStreamMode(entry: DeadLetterEntry): StreamRecoveryMode {
    return entry.streamId === null ? 'PerMessage' : 'TailAware';
  }

  shouldRecover(entry: DeadLetterEntry): boolean {
    return this.#fallback.shouldRecover(entry);
  }
}
