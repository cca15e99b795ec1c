import { describe, expect, test } from 'vitest';
import {
  type DeadLetterEntry,
  type DeadLetterRecoveryPolicy,
  DeadLetterRecoveryStatus,
  OperatorDisposition,
  type RecoveryPolicy,
  type StreamRecoveryMode,
} from '../contract/dead-letter.js';
import { MessageFailureReason } from '../contract/message-failure-reason.js';
import { DefaultDeadLetterRecoveryPolicy } from './default-recovery-policy.js';
import { decideRecovery } from './recovery-step.js';

const minutes = 60_000;
const hours = 60 * minutes;
const deadAt = new Date('2026-01-01T00:00:00Z');
const after = (ms: number) => new Date(deadAt.getTime() + ms);

const entryOf = (more: Partial<DeadLetterEntry> = {}): DeadLetterEntry => ({
  deadLetterId: 'd1',
  sourceTable: 'wh_outbox',
  sourceId: 'm1',
  streamId: null,
  messageType: 'orders.order-placed',
  destination: 'orders',
  failureReason: MessageFailureReason.MaxAttemptsExceeded,
  lastFailureReason: null,
  errorText: null,
  errorFingerprint: null,
  attempts: 10,
  deadLetteredAt: deadAt,
  generation: 'build-1',
  recoveryStatus: DeadLetterRecoveryStatus.Pending,
  recoveryAttempts: 0,
  grantedAttempts: 0,
  nextRecoveryAt: null,
  recoveredAt: null,
  parksStream: false,
  operatorDisposition: OperatorDisposition.None,
  operatorNotes: null,
  operatorActor: null,
  recoverable: true,
  ...more,
});

// The seed's matrix: name, recoveries, cooldown, and what comes after exhaustion.
const matrix: [keyof typeof MessageFailureReason, string, number, number, 'hold' | 'giveUp'][] = [
  ['Throttled', 'AggressiveRetry', 3, 30 * minutes, 'giveUp'],
  ['TransportException', 'MediumRetry', 3, 1 * hours, 'giveUp'],
  ['LeaseExpired', 'AggressiveRetry', 5, 0, 'giveUp'],
  ['MaxAttemptsExceeded', 'ConservativeRetry', 1, 6 * hours, 'hold'],
  ['EventStorageFailure', 'HoldForReview', 0, 0, 'hold'],
  ['ValidationError', 'HoldForReview', 0, 0, 'hold'],
  ['SerializationError', 'HoldForReview', 0, 0, 'hold'],
  ['TransportNotReady', 'MediumRetry', 3, 30 * minutes, 'giveUp'],
  ['Unknown', 'OneShotThenHold', 1, 1 * hours, 'hold'],
];
const named = new Set<string>(matrix.map(([reason]) => reason));
const others = Object.keys(MessageFailureReason).filter((reason) => !named.has(reason)) as (typeof matrix)[number][0][];
const fallback = others.map((reason): (typeof matrix)[number] => [reason, 'OneShotThenHold', 1, 1 * hours, 'hold']);

describe('default policy', () => {
  const policies = new DefaultDeadLetterRecoveryPolicy();

  test.each([...matrix, ...fallback])(
    '%s: %s, %i recoveries, %i ms before each, then %s',
    (reason, name, budget, cooldown, end) => {
      let entry = entryOf({ failureReason: MessageFailureReason[reason] });
      let died = deadAt;
      for (let spent = 0; spent < budget; spent += 1) {
        // It has died again, with a budget that remembers.
        entry = { ...entry, recoveryAttempts: spent, deadLetteredAt: died };
        const due = new Date(died.getTime() + cooldown);
        expect(decideRecovery(entry, policies, new Date(due.getTime() - 1))).toEqual({ kind: 'wait', until: due });
        expect(decideRecovery(entry, policies, due)).toMatchObject({ kind: 'recover', policy: { name } });
        died = new Date(due.getTime() + 5 * minutes);
      }
      entry = { ...entry, recoveryAttempts: budget, deadLetteredAt: died };
      expect(decideRecovery(entry, policies, died)).toMatchObject({ kind: end, policy: { name } });
      expect(decideRecovery(entry, policies, new Date(died.getTime() + 365 * 24 * hours)).kind).toBe(end);
    },
  );

  test('a granted attempt goes beyond the budget, once', () => {
    const due = { nextRecoveryAt: after(1), grantedAttempts: 1, recoveryAttempts: 1 };
    expect(decideRecovery(entryOf(due), policies, after(1)).kind).toBe('recover');
    expect(decideRecovery(entryOf({ ...due, recoveryAttempts: 2 }), policies, after(1)).kind).toBe('hold');
  });

  test('what is granted is a try whatever was spent, under a policy that allowed more, and no more than one', () => {
    const spent = { recoveryAttempts: 7, grantedAttempts: 1, nextRecoveryAt: after(1) };
    const retry = { ...spent, operatorDisposition: OperatorDisposition.RetryNow };
    expect(decideRecovery(entryOf(retry), policies, after(1)).kind).toBe('recover');
    // Coming back, and dying again, end the disposition.
    expect(decideRecovery(entryOf({ ...spent, recoveryAttempts: 8 }), policies, after(1)).kind).toBe('hold');
  });

  test('a time that was set stands for the cooldown, earlier or later', () => {
    expect(decideRecovery(entryOf({ nextRecoveryAt: after(1) }), policies, after(1)).kind).toBe('recover');
    const late = after(24 * hours);
    expect(decideRecovery(entryOf({ nextRecoveryAt: late }), policies, after(7 * hours))).toEqual({
      kind: 'wait',
      until: late,
    });
  });

  test('what cannot come back by itself is held, whatever its budget', () => {
    const unreadable = entryOf({ failureReason: MessageFailureReason.Throttled, recoverable: false });
    expect(decideRecovery(unreadable, policies, after(hours)).kind).toBe('hold');
  });

  test('what is held, recovered or given up is left alone', () => {
    for (const recoveryStatus of [2, 3, 4] as const) {
      expect(decideRecovery(entryOf({ recoveryStatus }), policies, after(7 * hours)).kind).toBe('leave');
    }
  });

  test('streams are recovered together, the rest one by one', () => {
    expect(policies.getStreamMode(entryOf())).toBe('PerMessage');
    expect(policies.getStreamMode(entryOf({ streamId: 's1' }))).toBe('TailAware');
  });

  test('the shipped alternative reads what the last real failure was', () => {
    const byLast = new DefaultDeadLetterRecoveryPolicy({ reason: 'lastFailureReason' });
    const entry = entryOf({ lastFailureReason: MessageFailureReason.Throttled });
    expect(byLast.getPolicy(entry)).toMatchObject({ name: 'AggressiveRetry', maxRecoveryAttempts: 3 });
    expect(policies.getPolicy(entry).name).toBe('ConservativeRetry');
    expect(byLast.getPolicy(entryOf()).name).toBe('ConservativeRetry');
  });

  test('lines of the matrix can be replaced, that of unlisted reasons included', () => {
    const line = { name: 'Mine', maxRecoveryAttempts: 2, cooldownMs: 5, holdForReviewAfterExhaustion: false };
    const mine = new DefaultDeadLetterRecoveryPolicy({
      policyByReason: new Map([[MessageFailureReason.Unknown, line]]),
    });
    expect(mine.getPolicy(entryOf({ failureReason: MessageFailureReason.MessageBodyTooLarge }))).toBe(line);
    expect(mine.getPolicy(entryOf()).name).toBe('ConservativeRetry');
  });
});

/** The custom policy of the seed. */
class InventoryPolicy implements DeadLetterRecoveryPolicy {
  readonly #fallback = new DefaultDeadLetterRecoveryPolicy();

  getPolicy(entry: DeadLetterEntry): RecoveryPolicy {
    return entry.messageType.includes('inventory-adjust')
      ? { name: 'InventorySpecific', maxRecoveryAttempts: 5, cooldownMs: 2 * hours, holdForReviewAfterExhaustion: true }
      : this.#fallback.getPolicy(entry);
  }

  getStreamMode(entry: DeadLetterEntry): StreamRecoveryMode {
    return entry.streamId === null ? 'PerMessage' : 'TailAware';
  }

  shouldRecover(entry: DeadLetterEntry): boolean {
    return entry.recoveryStatus !== DeadLetterRecoveryStatus.HoldForReview && this.#fallback.shouldRecover(entry);
  }
}

test('a custom policy delegates what it does not decide to the default', () => {
  const policies = new InventoryPolicy();
  const inventory = entryOf({ messageType: 'stock.inventory-adjust', recoveryAttempts: 4 });
  expect(decideRecovery(inventory, policies, after(2 * hours))).toMatchObject({
    kind: 'recover',
    policy: { name: 'InventorySpecific' },
  });
  expect(decideRecovery({ ...inventory, recoveryAttempts: 5 }, policies, after(2 * hours)).kind).toBe('hold');
  expect(decideRecovery(entryOf(), policies, after(6 * hours))).toMatchObject({
    kind: 'recover',
    policy: { name: 'ConservativeRetry' },
  });
  const held = entryOf({ recoveryStatus: DeadLetterRecoveryStatus.HoldForReview });
  expect(decideRecovery(held, policies, after(6 * hours)).kind).toBe('leave');
});
