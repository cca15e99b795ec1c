import type { ClaimResult, ClaimedMessage, ClaimedTry, FailedTry } from '../contract/work.js';

/** A row of `exchange_outbox_work` or `exchange_inbox_work`. */
export interface ExchangeRow {
  outcome: 'claimed' | 'stale' | 'idle';
  message_id: string;
  destination: string | null;
  message_type: string;
  event_data: string;
  metadata: string;
  stream_id: string | null;
  attempts: number;
  sequence: string;
  age_ms: number;
  status: number;
  candidates: number;
  idle_ms: number | null;
}

/** Sorts the rows of an exchange into what was claimed, what was stale, and when to look again. */
export function readExchange(rows: readonly ExchangeRow[]): ClaimResult {
  const claimed: ClaimedMessage[] = [];
  const staleIds: string[] = [];
  let candidates = 0;
  let dueMs: number | null = null;
  for (const row of rows) {
    switch (row.outcome) {
      case 'claimed':
        candidates = row.candidates;
        claimed.push({
          messageId: row.message_id,
          attempts: row.attempts,
          messageType: row.message_type,
          eventData: row.event_data,
          metadata: row.metadata,
          streamId: row.stream_id,
          sequence: row.sequence,
          destination: row.destination ?? '',
          ageMs: row.age_ms,
          status: row.status,
        });
        break;
      case 'stale':
        staleIds.push(row.message_id);
        break;
      case 'idle':
        candidates = row.candidates;
        dueMs = row.idle_ms;
        break;
    }
  }
  return { claimed, staleIds, candidates, dueMs };
}

/** The parallel arrays in which SQL functions take tries. */
export function tryArrays(tries: readonly ClaimedTry[]): [string[], number[]] {
  return [tries.map((one) => one.messageId), tries.map((one) => one.attempts)];
}

export function failureArrays(failures: readonly FailedTry[]): [string[], number[], number[], string[], number[]] {
  return [
    ...tryArrays(failures),
    failures.map((failure) => failure.completedStatus),
    failures.map((failure) => failure.error),
    failures.map((failure) => failure.reason),
  ];
}
