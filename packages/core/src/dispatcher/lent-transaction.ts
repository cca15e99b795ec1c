import type pg from 'pg';
import type { HandlerTransaction } from '../contract/transaction.js';
import { ConfigurationError } from '../errors/whizbang-error.js';

/** A client while a handler has it. */
export interface LentTransaction {
  readonly tx: HandlerTransaction;
  /** The handler has ended: nothing of it may reach the client any more. */
  readonly takeBack: () => void;
}

/**
 * Lends a client to a handler. What a handler has started and not waited for (the other calls of a `Promise.all` that has
 * rejected, say) goes on after its end, when the client is between transactions, or in that of another message. Its statements
 * would be committed by themselves, or with somebody else's; so they are refused.
 *
 * It is the client for whoever looks: libraries that want one of `pg` can be given it.
 */
export function lendTransaction(client: pg.PoolClient): LentTransaction {
  let ended = false;
  const refuse = async () => {
    throw new ConfigurationError(
      'The transaction of a handler was used after the handler had ended; the statement was not run. Wait in the handler for everything it starts; when a Promise.all rejects, the other calls go on.',
    );
  };
  // Handed on as it is: a cursor is answered with itself, not with a promise.
  const query = client.query.bind(client) as HandlerTransaction['query'];
  const tx = new Proxy(client, {
    get: (target, key) => {
      if (key === 'query') {
        return ended ? refuse : query;
      }
      // As `pg` tells it of a client that is in no transaction.
      if (ended && key === 'getTransactionStatus') {
        return () => 'I';
      }
      return ended && key === 'readyForQuery' ? true : (Reflect.get(target, key) as unknown);
    },
  });
  return {
    tx,
    takeBack: () => {
      ended = true;
    },
  };
}
