import { attributesOf } from '../contract/cloud-event.js';
import { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { MessageMetadata } from '../contract/message-metadata.js';
import { MessageProcessingStatus } from '../contract/message-processing-status.js';
import type { OutgoingMessage, PublishOutcome, Transport } from '../contract/transport.js';
import type { ClaimedMessage, ClaimedTry, FailedTry, Settlements } from '../contract/work.js';
import { failureText } from '../failure/failure-text.js';

/** What became of a batch. */
export interface BatchOutcome {
  readonly settlements: Settlements;
  readonly published: readonly ClaimedMessage[];
  /** Streams with a message that is not confirmed: what is in hand of them behind it must be released. */
  readonly stoppedStreams: ReadonlySet<string>;
}

/**
 * Hands a batch to the transport and turns its outcomes into settlements.
 *
 * Failures of an outage are no tries of the message: when the transport is not ready afterwards, retryable failures are
 * released instead of recorded. Never rejects: a transport that throws has failed every message with an unknown outcome.
 */
export async function publishBatch(
  rows: readonly ClaimedMessage[],
  transport: Transport,
  service: string,
  signal: AbortSignal,
): Promise<BatchOutcome> {
  const completed: ClaimedTry[] = [];
  const failed: FailedTry[] = [];
  const released: ClaimedTry[] = [];
  const published: ClaimedMessage[] = [];
  const stoppedStreams = new Set<string>();
  const outgoing: OutgoingMessage[] = [];
  const tried: ClaimedMessage[] = [];
  const fail = (row: ClaimedMessage, error: unknown, reason: MessageFailureReason) => {
    failed.push({ ...tryOf(row), completedStatus: MessageProcessingStatus.Stored, error: failureText(error), reason });
  };

  for (const row of rows) {
    if (row.streamId !== null && stoppedStreams.has(row.streamId)) {
      released.push(tryOf(row));
      continue;
    }
    try {
      outgoing.push(toOutgoing(row, service));
      tried.push(row);
    } catch (error) {
      fail(row, error, MessageFailureReason.SerializationError);
      stop(row, stoppedStreams);
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
        if (outage && outcome.retryable) {
          released.push(tryOf(row));
        } else {
          fail(row, outcome.error, outcome.reason);
        }
        stop(row, stoppedStreams);
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
  const metadata = JSON.parse(row.metadata) as MessageMetadata;
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
