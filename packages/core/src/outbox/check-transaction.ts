import type { Transaction } from '../contract/transaction.js';
import { ConfigurationError } from '../errors/whizbang-error.js';

/** What `pg` tells of its clients and pools, as far as it is there: other drivers, older versions and wrappers tell nothing. */
interface Telling {
  readonly connect?: unknown;
  readonly totalCount?: unknown;
  readonly readyForQuery?: unknown;
  getTransactionStatus?(): unknown;
}

/**
 * Refuses what is known to be no transaction. A statement outside of one commits by itself: the message would be sent although
 * the caller rolls back what it tells of.
 *
 * @throws ConfigurationError
 */
export function checkTransaction(tx: Transaction | undefined | null, messageType: string): void {
  if (typeof tx?.query !== 'function') {
    throw new ConfigurationError(
      `publish('${messageType}') needs the transaction first: publish(tx, message, payload). Use publishNow for a message that belongs to no transaction.`,
    );
  }
  const telling = tx as Telling;
  if (typeof telling.connect === 'function' && typeof telling.totalCount === 'number') {
    throw new ConfigurationError(
      `publish('${messageType}') was given a pool, which runs each statement by itself and in no transaction. Pass the client that BEGIN was sent on, or use publishNow.`,
    );
  }
  // Not while a statement is on its way: it may be the BEGIN.
  if (telling.readyForQuery === true && telling.getTransactionStatus?.() === 'I') {
    throw new ConfigurationError(
      `publish('${messageType}') was given a client that is in no transaction: it has not begun, or has ended already. Call it between BEGIN and COMMIT, and wait for it; or use publishNow.`,
    );
  }
}
