import type pg from 'pg';
import type { HandlerTransaction } from '../contract/transaction.js';
import { DatabaseUnavailableError } from '../errors/whizbang-error.js';
import { within } from '../runtime/clock.js';

const leastDeadlineMs = 5_000;

/**
 * How long a statement of ours may go unanswered. A connection that the network has forgotten never answers and never ends: the
 * operating system finds out after a quarter of an hour, or two hours. What is not answered within a lease has come to nothing
 * anyway.
 */
export function statementDeadlineMs(leaseSeconds: number): number {
  return Math.max(leaseSeconds * 1_000, leastDeadlineMs);
}

/** The same connection for statements of ours; after a rejection with DatabaseUnavailableError it is of no more use. */
export function withDeadline(client: pg.ClientBase, deadlineMs: number): HandlerTransaction {
  return {
    query: <Row>(text: string, values?: unknown[]) =>
      within(
        client.query(text, values) as Promise<pg.QueryResult & { rows: Row[] }>,
        deadlineMs,
        () => new DatabaseUnavailableError(`PostgreSQL has not answered for ${deadlineMs} ms.`, { retryable: true }),
      ),
  };
}
