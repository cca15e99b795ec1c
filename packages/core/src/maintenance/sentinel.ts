import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import type { SchemaName } from '../database/schema-name.js';
import { dateAt } from '../runtime/clock.js';

/** A row that is claimed and never drained. */
export interface StuckRow {
  readonly messageId: string;
  readonly messageType: string;
  readonly streamId: string | null;
  readonly attempts: number;
  /** When the row was stored. */
  readonly claimedSince: Date;
  /** True for a row parked at `infinity`. */
  readonly parked: boolean;
}

/** Rows past `maxAttempts`, and parked ones, worst first, at the most `limit`. */
export async function findStuckRows(
  pool: pg.Pool,
  schema: SchemaName,
  side: 'outbox' | 'inbox',
  maxAttempts: number,
  limit: number,
): Promise<readonly StuckRow[]> {
  const { rows } = await pool.query<{
    message_id: string;
    message_type: string;
    stream_id: string | null;
    attempts: number;
    since_ms: number;
    parked: boolean;
  }>(
    `select message_id, message_type, stream_id, attempts, extract(epoch from claimed_since)::double precision * 1000 as since_ms, parked
     from ${schema.prefix}find_stuck_${side}_rows($1, $2)`,
    [maxAttempts, limit],
  );
  return rows.map((row) => ({
    messageId: row.message_id,
    messageType: row.message_type,
    streamId: row.stream_id,
    attempts: row.attempts,
    claimedSince: dateAt(row.since_ms),
    parked: row.parked,
  }));
}

/** Raises the flag: one warning per row. It never changes a row. */
export function warnOfStuckRows(logger: Logger, side: 'outbox' | 'inbox', rows: readonly StuckRow[]): void {
  const cap = side === 'outbox' ? 'maxOutboxAttempts' : 'maxInboxAttempts';
  for (const row of rows) {
    logger.warn(
      {
        message_id: row.messageId,
        type: row.messageType,
        stream: row.streamId,
        attempts: row.attempts,
        since: row.claimedSince.toISOString(),
      },
      row.parked
        ? `Stuck ${side} row sentinel: the row is parked (scheduled_for = infinity) and nothing will ever take it up; see docs/sentinel.md`
        : `Stuck ${side} row sentinel: the row was claimed past ${cap} and never drained; see docs/sentinel.md`,
    );
  }
}
