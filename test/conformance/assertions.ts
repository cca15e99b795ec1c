import assert from 'node:assert/strict';
import {
  MessageFailureReason,
  type OutgoingMessage,
  type PublishOutcome,
  failureReasonName,
} from '@whizbang/core/transport';

/** An outcome in a few words, for messages and comparisons. */
export function describeOutcome(outcome: PublishOutcome | undefined): string {
  if (outcome?.kind !== 'failed') return outcome?.kind ?? 'missing';
  return `failed ${failureReasonName(outcome.reason)}${outcome.retryable ? ' retryable' : ''}`;
}

export function assertOutcomes(outcomes: readonly PublishOutcome[], expected: readonly string[]): void {
  assert.deepEqual(outcomes.map(describeOutcome), expected);
  for (const outcome of outcomes) {
    if (outcome.kind === 'failed') assert.ok(outcome.error instanceof Error && outcome.error.message !== '');
  }
}

export function assertAllConfirmed(outcomes: readonly PublishOutcome[], batch: readonly OutgoingMessage[]): void {
  assert.equal(outcomes.length, batch.length, 'one outcome per message');
  const others = outcomes.filter(({ kind }) => kind !== 'confirmed').map(describeOutcome);
  assert.deepEqual([...new Set(others)], [], `${others.length} of ${batch.length} not confirmed`);
}

/** What may be reported while the broker is away: nothing confirmed, and nothing that spends attempts for good. */
export function assertNothingConfirmed(outcomes: readonly PublishOutcome[], batch: readonly OutgoingMessage[]): void {
  assert.equal(outcomes.length, batch.length, 'one outcome per message');
  const away: readonly number[] = [
    MessageFailureReason.TransportNotReady,
    MessageFailureReason.TransportException,
    MessageFailureReason.Throttled,
  ];
  for (const outcome of outcomes) {
    const fitting =
      outcome.kind === 'notAttempted' ||
      (outcome.kind === 'failed' && outcome.retryable && away.includes(outcome.reason));
    assert.ok(fitting, `while the broker is away: ${describeOutcome(outcome)}`);
  }
}

/** The very messages, each once, in this order. */
export function assertSequence(
  arrivedIds: readonly string[],
  sent: readonly OutgoingMessage[],
  what = 'arrivals',
): void {
  const positions = new Map(sent.map(({ messageId }, position) => [messageId, position]));
  const arrived = arrivedIds.map((id) => positions.get(id) ?? `unknown ${id}`);
  assert.deepEqual(arrived, [...sent.keys()], `${what}, as positions of what was sent`);
}

/** The very messages, each once, in any order. */
export function assertSameSet(
  arrivedIds: readonly string[],
  sent: readonly OutgoingMessage[],
  what = 'arrivals',
): void {
  const sentIds = sent.map(({ messageId }) => messageId);
  assert.deepEqual([...arrivedIds].toSorted(), sentIds.toSorted(), `${what}, as a set`);
}

/** The very messages, each once, the messages of each stream in the order in which they were sent. */
export function assertStreamsInOrder(
  arrivedIds: readonly string[],
  sent: readonly OutgoingMessage[],
  what = 'arrivals',
): void {
  assertSameSet(arrivedIds, sent, what);
  for (const streamId of new Set(sent.map((message) => message.streamId))) {
    const ofStream = sent.filter((message) => message.streamId === streamId);
    const ids = new Set(ofStream.map(({ messageId }) => messageId));
    assertSequence(
      arrivedIds.filter((id) => ids.has(id)),
      ofStream,
      `${what} of stream ${streamId}`,
    );
  }
}

/** Arrivals without repetitions: what a receiver that deduplicates keeps. */
export function firstArrivals(ids: readonly string[]): string[] {
  return [...new Set(ids)];
}
