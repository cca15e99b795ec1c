import pg from 'pg';
import { within } from '../runtime/clock.js';
import { cutConnection } from './cut-connection.js';
import { beginReadCommitted } from './read-committed.js';

// What pg says when `query_timeout` has passed.
const noAnswer = 'Query read timeout';

// The application may have set parsers of its own, for the whole process. Ours are for what Whizbang's own statements return.
const scalars = new Map<number, (text: string) => unknown>([
  [pg.types.builtins.BOOL, (text) => text === 't'],
  [pg.types.builtins.INT2, Number],
  [pg.types.builtins.INT4, Number],
  [pg.types.builtins.FLOAT4, Number],
  [pg.types.builtins.FLOAT8, Number],
  [pg.types.builtins.INT8, String],
  [pg.types.builtins.TEXT, String],
  [pg.types.builtins.VARCHAR, String],
  [pg.types.builtins.UUID, String],
]);

const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary'): unknown =>
    scalars.get(oid) ?? pg.types.getTypeParser(oid, format)) as pg.CustomTypesConfig['getTypeParser'],
};

/**
 * A pool whose every wait has an end. A server that has gone without a word, or a way to it that drops packets, leaves connections
 * that look open and never answer: a statement is given up after the deadline, and the connection with it.
 *
 * @param options.readCommitted - each `query` is a transaction of its own at READ COMMITTED
 */
export function boundedPool(
  pool: pg.Pool,
  deadlineMs: number,
  { readCommitted = false }: { readonly readCommitted?: boolean } = {},
): pg.Pool {
  const connect = (): Promise<pg.PoolClient> => {
    const connecting = pool.connect();
    // A pool of the user's may have no deadline of its own.
    return within(connecting, deadlineMs, () => {
      connecting.then(
        (client) => client.release(),
        () => undefined,
      );
      return new Error(`timeout: the pool gave no connection within ${deadlineMs} ms`);
    });
  };
  const query = async (text: string, values: unknown[] = []): Promise<pg.QueryResult> => {
    const client = await connect();
    const run = (statement: string, parameters?: unknown[]) => {
      // `query_timeout` is missing in the types of pg.
      const config = { text: statement, values: parameters, types, query_timeout: deadlineMs };
      return client.query(config as pg.QueryConfig);
    };
    let failure: Error | undefined;
    try {
      if (!readCommitted) {
        return await run(text, values);
      }
      await run(beginReadCommitted());
      const result = await run(text, values);
      await run('commit');
      return result;
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error));
      if (failure.message === noAnswer) {
        cutConnection(client);
      }
      throw error;
    } finally {
      // A connection that failed is closed, which ends its transaction: its answer may still be on the way.
      client.release(failure);
    }
  };
  return new Proxy(pool, {
    get: (target, name) => {
      if (name === 'query') {
        return query;
      }
      if (name === 'connect') {
        return connect;
      }
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}
