import { attributesOf } from '../contract/cloud-event.js';
import { MessageFailureReason } from '../contract/message-failure-reason.js';
import { readMetadata } from '../contract/message-metadata.js';
import type { OutgoingMessage, PublishOutcome, Transport } from '../contract/transport.js';
import type { ClaimedMessage, ClaimedTry, FailedTry, Settlements } from '../contract/work.js';

/** What became of a batch. */
export interface BatchOutcome {
  readonly settlements: Settlements;
  readonly published: readonly ClaimedMessage[];
  /** Streams with a message that is not confirmed: what is in hand of them behind it must be released. */
  readonly stoppedStreams: ReadonlySet<string>;
}

/** Decides what a failure is: a try that is recorded, or none (`undefined`), whose row is released. */
export type PublishJudge = (
  row: ClaimedMessage,
  failure: PublishOutcome & { kind: 'failed' },
  outage: boolean,
) => FailedTry | undefined;

/** Whether the lease of a row still runs. */
export type HoldsLease = (row: ClaimedMessage) => boolean;

/**
 * Hands a batch to the transport and turns its outcomes into settlements. A row whose lease has run out meanwhile, because the
 * process stood still, is not sent: others may have published it and what follows it, and it would come after them.
 *
 * Failures of an outage are no tries of the message: the judge is told when the transport is not ready afterwards. Never rejects: a transport that throws has failed every message with an unknown outcome.
 */
export async function publishBatch(
  rows: readonly ClaimedMessage[],
  transport: Transport,
  service: string,
  signal: AbortSignal,
  judge: PublishJudge,
  holds: HoldsLease,
): Promise<BatchOutcome> {
  const completed: ClaimedTry[] = [];
  const failed: FailedTry[] = [];
  const released: ClaimedTry[] = [];
  const published: ClaimedMessage[] = [];
  const stoppedStreams = new Set<string>();
  const outgoing: OutgoingMessage[] = [];
  const tried: ClaimedMessage[] = [];
  const conclude = (row: ClaimedMessage, failure: PublishOutcome & { kind: 'failed' }, outage: boolean) => {
    const recorded = judge(row, failure, outage);
    if (recorded === undefined) {
      released.push(tryOf(row));
    } else {
      failed.push(recorded);
    }
    stop(row, stoppedStreams);
  };

  for (const row of rows) {
    if (row.streamId !== null && stoppedStreams.has(row.streamId)) {
      released.push(tryOf(row));
      continue;
    }
    if (!holds(row)) {
      released.push(tryOf(row));
      stop(row, stoppedStreams);
      continue;
    }
    try {
      outgoing.push(toOutgoing(row, service));
      tried.push(row);
    } catch (cause) {
      const error = cause instanceof Error ? cause : new Error(String(cause));
      conclude(
        row,
        { kind: 'failed', reason: MessageFailureReason.SerializationError, retryable: false, error },
        false,
      );
    }
  }

  const outcomes = await outcomesOf(transport, outgoing, signal);
  const outage = !transport.ready();
  for (const [index, row] of tried.entries()) {
    const outcome = outcomes[index] ?? { kind: 'notAttempted' };
    switch (outcome.kind) {
      case 'confirmed':
        completed.push(tryOf(row));
        published.push(row);
        break;
      case 'notAttempted':
        released.push(tryOf(row));
        stop(row, stoppedStreams);
        break;
      case 'failed':
        conclude(row, outcome, outage);
        break;
    }
  }
  return { settlements: { completed, failed, released }, published, stoppedStreams };
}

function stop(row: ClaimedMessage, stoppedStreams: Set<string>): void {
  if (row.streamId !== null) {
    stoppedStreams.add(row.streamId);
  }
}

async function outcomesOf(
  transport: Transport,
  outgoing: readonly OutgoingMessage[],
  signal: AbortSignal,
): Promise<readonly PublishOutcome[]> {
  if (outgoing.length === 0) {
    return [];
  }
  try {
    return await transport.publish(outgoing, signal);
  } catch (cause) {
    const error = cause instanceof Error ? cause : new Error(String(cause));
    return outgoing.map(() => ({
      kind: 'failed',
      reason: MessageFailureReason.TransportException,
      retryable: true,
      error,
    }));
  }
}

function toOutgoing(row: ClaimedMessage, service: string): OutgoingMessage {
  const metadata = readMetadata(row.metadata);
  return {
    messageId: row.messageId,
    destination: row.destination,
    messageType: row.messageType,
    streamId: row.streamId,
    attributes: attributesOf(row, metadata, service),
    headers: metadata.headers ?? {},
    body: Buffer.from(row.eventData),
  };
}

export function tryOf(row: ClaimedTry): ClaimedTry {
  return { messageId: row.messageId, attempts: row.attempts };
}
