import type {
  DeadLetter,
  DeadLetterEntry,
  DeadLetterRecoveryStatus,
  OperatorDisposition,
} from '../contract/dead-letter.js';
import type { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { MessageMetadata } from '../contract/message-metadata.js';
import { dateAt } from '../runtime/clock.js';

export interface DeadLetterRow {
  dead_letter_id: string;
  source_table: 'wh_outbox' | 'wh_inbox';
  source_id: string;
  stream_id: string | null;
  message_type: string;
  destination: string | null;
  failure_reason: number;
  last_failure_reason: number | null;
  error_text: string | null;
  error_fingerprint: string | null;
  attempts_when_dlq: number;
  dead_lettered_ms: number | null;
  generation: string;
  recovery_status: number;
  recovery_attempts: number;
  granted_attempts: number;
  next_recovery_ms: number | null;
  recovered_ms: number | null;
  parks_stream: boolean;
  operator_disposition: number;
  operator_notes: string | null;
  operator_actor: string | null;
  recoverable: boolean;
}

export interface WholeDeadLetterRow extends DeadLetterRow {
  event_data: string | null;
  raw_body: Buffer | null;
  metadata: string;
}

// Times come as milliseconds: the driver would turn `infinity` into something that is no date.
const milliseconds = (column: string) =>
  `(extract(epoch from nullif(d.${column}, 'infinity')) * 1000)::double precision`;

/** The columns of {@link DeadLetterRow}, from a table called `d`. */
export const deadLetterColumns = `d.dead_letter_id, d.source_table, d.source_id, d.stream_id, d.message_type, d.destination,
  d.failure_reason, d.last_failure_reason, d.error_text, d.error_fingerprint, d.attempts_when_dlq,
  ${milliseconds('dead_lettered_at')} as dead_lettered_ms, d.generation, d.recovery_status, d.recovery_attempts,
  d.granted_attempts, ${milliseconds('next_recovery_at')} as next_recovery_ms, ${milliseconds('recovered_at')} as recovered_ms,
  d.parks_stream, d.operator_disposition, d.operator_notes, d.operator_actor, d.envelope is not null as recoverable`;

export const wholeDeadLetterColumns = `${deadLetterColumns}, d.envelope::text as event_data, d.raw_body, d.metadata::text as metadata`;

const dateOf = (ms: number | null) => (ms === null ? null : dateAt(ms));

export function toEntry(row: DeadLetterRow): DeadLetterEntry {
  return {
    deadLetterId: row.dead_letter_id,
    sourceTable: row.source_table,
    sourceId: row.source_id,
    streamId: row.stream_id,
    messageType: row.message_type,
    destination: row.destination,
    failureReason: row.failure_reason as MessageFailureReason,
    lastFailureReason: row.last_failure_reason as MessageFailureReason | null,
    errorText: row.error_text,
    errorFingerprint: row.error_fingerprint,
    attempts: row.attempts_when_dlq,
    deadLetteredAt: dateAt(row.dead_lettered_ms ?? Infinity),
    generation: row.generation,
    recoveryStatus: row.recovery_status as DeadLetterRecoveryStatus,
    recoveryAttempts: row.recovery_attempts,
    grantedAttempts: row.granted_attempts,
    nextRecoveryAt: dateOf(row.next_recovery_ms),
    recoveredAt: dateOf(row.recovered_ms),
    parksStream: row.parks_stream,
    operatorDisposition: row.operator_disposition as OperatorDisposition,
    operatorNotes: row.operator_notes,
    operatorActor: row.operator_actor,
    recoverable: row.recoverable,
  };
}

export function toDeadLetter(row: WholeDeadLetterRow): DeadLetter {
  return {
    ...toEntry(row),
    eventData: row.event_data,
    rawBody: row.raw_body,
    metadata: JSON.parse(row.metadata) as MessageMetadata,
  };
}
