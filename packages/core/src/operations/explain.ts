import type pg from 'pg';
import { failureReasonName } from '../contract/message-failure-reason.js';
import { isUuid } from '../contract/stream-id.js';
import type { SchemaName } from '../database/schema-name.js';
import type { BreakerState } from '../failure/breakers.js';

/** Where a message is, and why it has not gone on. */
export interface Explanation {
  readonly where: 'outbox' | 'inbox' | 'dead letters' | 'completed' | 'unknown';
  /** One sentence. */
  readonly sentence: string;
  readonly attempts: number | null;
  readonly lastError: string | null;
}

interface WaitingRow {
  category: 'outbox' | 'inbox';
  attempts: number;
  error: string | null;
  message_type: string;
  destination: string | null;
  processed: boolean;
  parked: boolean;
  scheduled_at: string | null;
  leased_by: string | null;
  leased_until: string | null;
  ahead: string | null;
  failed_reason: number;
}

/** Answers from the tables, and from the breakers of this process. */
export async function explainMessage(
  pool: pg.Pool,
  schema: SchemaName,
  messageId: string,
  breakers: { readonly outbox: readonly BreakerState[]; readonly inbox: readonly BreakerState[] },
): Promise<Explanation> {
  if (!isUuid(messageId)) {
    return {
      where: 'unknown',
      sentence: 'It is no message id: message ids are UUIDs.',
      attempts: null,
      lastError: null,
    };
  }
  const { prefix } = schema;
  const { rows } = await pool.query<WaitingRow>(`select * from ${prefix}explain_message($1)`, [messageId]);
  // A service that handles what it publishes has the message twice: where it waits says more than where it is done.
  const row = rows.find((one) => !one.processed);
  if (row !== undefined) {
    const sentence = sentenceOf(row, breakers[row.category]);
    return { where: row.category, sentence, attempts: row.attempts, lastError: row.error };
  }
  const dead = await pool.query<{
    source_table: string;
    failure_reason: number;
    error_text: string | null;
    attempts: number;
    at: string;
    recovered: boolean;
  }>(
    `select source_table, failure_reason, error_text, attempts_when_dlq as attempts, dead_lettered_at::text as at, recovered_at is not null as recovered
     from ${prefix}wh_dead_letters where source_id = $1 order by recovered_at nulls first limit 1`,
    [messageId],
  );
  const [letter] = dead.rows;
  if (letter !== undefined && !letter.recovered) {
    return {
      where: 'dead letters',
      sentence: `It was dead-lettered at ${letter.at} because of ${failureReasonName(letter.failure_reason)} after ${letter.attempts} tries.`,
      attempts: letter.attempts,
      lastError: letter.error_text,
    };
  }
  const [kept] = rows;
  if (kept !== undefined) {
    return {
      where: 'completed',
      sentence: 'It has been completed and is kept (retainCompleted).',
      attempts: kept.attempts,
      lastError: kept.error,
    };
  }
  const seen = await pool.query<{ at: string }>(
    `select first_seen_at::text as at from ${prefix}wh_message_deduplication where message_id = $1`,
    [messageId],
  );
  if (seen.rows[0] !== undefined) {
    return {
      where: 'completed',
      sentence: `It was received at ${seen.rows[0].at} and has been handled.`,
      attempts: null,
      lastError: null,
    };
  }
  return {
    where: letter === undefined ? 'unknown' : 'completed',
    sentence:
      letter === undefined
        ? 'It is in no table of this schema: it was never stored, its transaction was rolled back, or it has been published and deleted.'
        : 'It was brought back from the dead letters and has been completed.',
    attempts: null,
    lastError: null,
  };
}

function sentenceOf(row: WaitingRow, breakers: readonly BreakerState[]): string {
  const key = row.category === 'outbox' ? row.destination : row.message_type;
  const breaker = breakers.find((one) => one.key === key);
  if (row.parked) {
    return 'It is parked (scheduled_for = infinity); set scheduled_for to now() to try it.';
  }
  if (row.leased_by !== null) {
    return `It is leased by instance ${row.leased_by} until ${row.leased_until ?? 'unknown'}.`;
  }
  if (row.ahead !== null) {
    return `It waits behind message ${row.ahead} of its stream.`;
  }
  if (breaker !== undefined) {
    return `The breaker of ${row.category === 'outbox' ? 'destination' : 'message type'} '${breaker.key}' is open because of ${breaker.reason}; the next trial is in ${breaker.retryInMs} ms.`;
  }
  if (row.scheduled_at !== null) {
    return row.attempts === 0
      ? `It is scheduled for ${row.scheduled_at}.`
      : `It waits for its retry at ${row.scheduled_at} after failing because of ${failureReasonName(row.failed_reason)}.`;
  }
  return 'It is due and waits to be claimed.';
}
