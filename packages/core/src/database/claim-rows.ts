import type {
  ClaimResult,
  ClaimedMessage,
  ClaimedTry,
  ClosedKeys,
  FailedTry,
  FailureSettings,
} from '../contract/work.js';

/** A row of `exchange_outbox_work` or `exchange_inbox_work`. */
export interface ExchangeRow {
  outcome: 'claimed' | 'stale' | 'dead' | 'idle';
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
  suspect: boolean;
  parked: boolean;
  error: string | null;
  failure_reason: number;
}

/** Sorts the rows of an exchange into what was claimed, what was stale, and when to look again. */
export function readExchange(rows: readonly ExchangeRow[]): ClaimResult {
  const claimed: ClaimedMessage[] = [];
  const staleIds: string[] = [];
  const deadIds: string[] = [];
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
          suspect: row.suspect,
          parked: row.parked,
          lastError: row.error,
          lastReason: row.failure_reason,
        });
        break;
      case 'stale':
        staleIds.push(row.message_id);
        break;
      case 'dead':
        deadIds.push(row.message_id);
        break;
      case 'idle':
        candidates = row.candidates;
        dueMs = row.idle_ms;
        break;
    }
  }
  return { claimed, staleIds, deadIds, candidates, dueMs };
}

/** The parallel arrays in which SQL functions take tries. */
export function tryArrays(tries: readonly ClaimedTry[]): [string[], number[]] {
  return [tries.map((one) => one.messageId), tries.map((one) => one.attempts)];
}

const policyNumbers = { block: 0, continue: 1, park: 2 } as const;

/** Failures and their settings as the two JSON parameters of the SQL functions. */
export function failureJson(failures: readonly FailedTry[], settings: FailureSettings): [string, string] {
  const elements = failures.map((failure) => ({
    messageId: failure.messageId,
    attempt: failure.attempts,
    completedStatus: failure.completedStatus,
    error: failure.error,
    reason: failure.reason,
    delayMs: failure.delayMs,
    permanent: failure.permanent ?? false,
    policy: policyNumbers[failure.policy ?? 'block'],
    fingerprint: failure.fingerprint,
    untried: failure.untried ?? false,
  }));
  return [JSON.stringify(elements), JSON.stringify(settings)];
}

/** The arrays that name what is put off. */
export function closedArrays(closed: ClosedKeys): [readonly string[], readonly number[], readonly boolean[]] {
  return [closed.keys, closed.seconds, closed.trials];
}

/** The columns that {@link readExchange} reads. */
export const exchangeColumns =
  'outcome, message_id, destination, message_type, event_data, metadata, stream_id, attempts, sequence, age_ms, status, candidates, idle_ms, suspect, parked, error, failure_reason';
