import type pg from 'pg';

/**
 * Closes the socket of a client; what is under way on it rejects. `end` would take leave of the server first, and one that does
 * not answer any more is waited for without end.
 */
export function cutConnection(client: pg.ClientBase): void {
  // A client of a user's pool may be of another make.
  const { connection } = client as unknown as { connection?: { stream?: { destroy?(): void } } };
  connection?.stream?.destroy?.();
}
