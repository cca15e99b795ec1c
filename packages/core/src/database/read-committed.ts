// Between two statements of a transaction in which nothing of the user's runs.
const briefPauseMs = 10_000;

/**
 * Begins a transaction of ours, whatever the role's or the database's default is.
 *
 * The server ends it when this process falls silent within it for longer than `pauseMs`: a machine without power says no
 * goodbye, and what its transaction has locked would stay locked until TCP gives up, by default after two hours.
 */
export function beginReadCommitted(pauseMs: number = briefPauseMs): string {
  const atMost = Math.ceil(Math.min(pauseMs, 2_147_483_647));
  return `begin isolation level read committed; set local idle_in_transaction_session_timeout = ${atMost}`;
}
