import {
  type DeadLetterEntry,
  type DeadLetterRecoveryPolicy,
  OperatorDisposition,
  type RecoveryPolicy,
} from '../contract/dead-letter.js';
import { dateAt } from '../runtime/clock.js';

/** What is to be done with a dead letter now. */
export type RecoveryDecision =
  | { readonly kind: 'recover'; readonly policy: RecoveryPolicy }
  | { readonly kind: 'hold'; readonly policy: RecoveryPolicy }
  | { readonly kind: 'giveUp'; readonly policy: RecoveryPolicy }
  | { readonly kind: 'wait'; readonly until: Date }
  | { readonly kind: 'leave'; readonly until: Date };

/**
 * Asks the policy. The budget is the message's, over its whole life, plus what was granted to it; the cooldown comes before
 * every recovery, the first included. What was granted counts even where the budget of an earlier reason was larger than the one of
 * this. A time that was set (by a schedule, a new generation or an operator) stands for
 * the cooldown.
 */
export function decideRecovery(
  entry: DeadLetterEntry,
  policies: DeadLetterRecoveryPolicy,
  now: Date,
): RecoveryDecision {
  const policy = policies.getPolicy(entry);
  const due = entry.nextRecoveryAt ?? dateAt(entry.deadLetteredAt.getTime() + policy.cooldownMs);
  if (Number.isNaN(due.getTime())) {
    throw new TypeError(`policy '${policy.name}' gives no time: its cooldown is ${policy.cooldownMs} ms`);
  }
  if (!policies.shouldRecover(entry)) {
    return { kind: 'leave', until: due };
  }
  if (!entry.recoverable) {
    return { kind: 'hold', policy };
  }
  const granted = entry.operatorDisposition === OperatorDisposition.RetryNow;
  if (!granted && entry.recoveryAttempts >= policy.maxRecoveryAttempts + entry.grantedAttempts) {
    return { kind: policy.holdForReviewAfterExhaustion ? 'hold' : 'giveUp', policy };
  }
  return due > now ? { kind: 'wait', until: due } : { kind: 'recover', policy };
}
