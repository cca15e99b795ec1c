import { z } from 'zod';
import { describe, expect, test } from 'vitest';
import { MessageFailureReason } from '../contract/message-failure-reason.js';
import { MessageProcessingStatus } from '../contract/message-processing-status.js';
import { defineMessage } from '../contract/message-definition.js';
import type { ClaimedMessage } from '../contract/work.js';
import { FailureJudge, concernsOthers } from './failure-judge.js';
import { PartialFailure, PermanentError, RetryLater } from './handler-errors.js';

const settings = { maxAttempts: 10, baseSeconds: 30, maxFactor: 10, jitter: 0, generation: 'build-1' };
const definitionOf = (type: string, streamFailurePolicy?: 'block' | 'continue' | 'park') =>
  defineMessage(type, {
    schema: z.object({}),
    destination: 'orders',
    ...(streamFailurePolicy === undefined ? {} : { streamFailurePolicy }),
  });
const definitions = [
  definitionOf('plain'),
  definitionOf('passing', 'continue'),
  definitionOf('parking', 'park'),
  definitionOf('blocking', 'block'),
];
const judge = new FailureJudge(settings, true, definitions);

const row = (more: Partial<ClaimedMessage> = {}): ClaimedMessage => ({
  messageId: 'm1',
  attempts: 3,
  messageType: 'plain',
  eventData: '{}',
  metadata: '{}',
  streamId: null,
  sequence: '1',
  destination: 'orders',
  ageMs: 0,
  status: 1,
  suspect: false,
  parked: false,
  lastError: null,
  lastReason: MessageFailureReason.Unknown,
  ...more,
});

describe('which failures are permanent', () => {
  const permanent = [3, 4, 11, 12];
  test.each(Object.entries(MessageFailureReason))('%s (%i)', (_, reason) => {
    const failed = judge.failed(row(), new Error('x'), reason, false);
    expect(failed.permanent).toBe(permanent.includes(reason));
    expect(failed.reason).toBe(reason);
    expect(concernsOthers(reason)).toBe(!permanent.includes(reason));
    // A retryable one is tried again whatever its reason is.
    expect(judge.failed(row(), new Error('x'), reason, true).permanent).toBe(false);
  });

  test('none when the option is off', () => {
    const lenient = new FailureJudge(settings, false, definitions);
    expect(lenient.failed(row(), new PermanentError('never'), 99).permanent).toBe(false);
    expect(lenient.failed(row(), new Error('x'), MessageFailureReason.ValidationError, false).permanent).toBe(false);
  });
});

test('PermanentError is permanent, with the reason it names', () => {
  const { EventStorageFailure, Unknown } = MessageFailureReason;
  expect(judge.failed(row(), new PermanentError('never'), Unknown)).toMatchObject({ permanent: true, reason: Unknown });
  expect(judge.failed(row(), new PermanentError('never', { reason: EventStorageFailure }), Unknown)).toMatchObject({
    permanent: true,
    reason: EventStorageFailure,
  });
});

test.each([
  [1_500, 1_500],
  [-1, 0],
  [Number.NaN, 0],
  [Infinity, 0],
  [1e300, 30 * 86_400_000],
])('RetryLater(%d) waits %d ms and counts as a try', (asked, delayMs) => {
  expect(judge.failed(row(), new RetryLater(asked), 99)).toMatchObject({ delayMs, permanent: false, attempts: 3 });
});

test('PartialFailure adds its bits, and only bits that are there to be set', () => {
  const failed = judge.failed(row(), new PartialFailure(8 | 32768 | 65536, 'half done'), 99);
  expect(failed.completedStatus).toBe(MessageProcessingStatus.Stored | 8);
});

test('each message type has its policy; block is the default, and that of unknown types', () => {
  expect(['plain', 'passing', 'parking', 'blocking', 'unknown'].map((type) => judge.policyOf(type))).toEqual([
    'block',
    'continue',
    'park',
    'block',
    'block',
  ]);
});

describe('given up without a try', () => {
  test.each([
    { attempts: 10, cap: 10, givenUp: false },
    { attempts: 11, cap: 10, givenUp: true },
    { attempts: 1_000, cap: null, givenUp: false },
  ])('claimed for the $attempts. time with the cap $cap: $givenUp', ({ attempts, cap, givenUp }) => {
    const capped = new FailureJudge({ ...settings, maxAttempts: cap }, true, definitions);
    const lost = row({ attempts, lastReason: MessageFailureReason.LeaseExpired, lastError: 'the lease ended' });
    const answer = capped.givenUp(lost);
    expect(answer).toEqual(
      givenUp
        ? {
            messageId: 'm1',
            attempts,
            completedStatus: 0,
            reason: MessageFailureReason.LeaseExpired,
            error: 'the lease ended',
            untried: true,
            permanent: false,
            policy: 'block',
          }
        : undefined,
    );
  });

  test('what follows a parked dead letter, whatever the options say of permanent failures', () => {
    const lenient = new FailureJudge(settings, false, definitions);
    expect(lenient.givenUp(row({ parked: true }))).toMatchObject({
      reason: MessageFailureReason.MaxAttemptsExceeded,
      permanent: true,
      policy: 'park',
      untried: true,
    });
  });
});
