import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import { withDeadline } from './deadline.js';

/** Begins a transaction of ours, whatever the role's or the database's default is. */
export const beginReadCommitted = 'begin isolation level read committed';

/**
 * The pool for what the workers do. A statement that is not answered in time rejects, and its connection is given up.
 *
 * Claims and settlements look again at what has changed while they waited for a lock, which is what READ COMMITTED does and the
 * levels above it refuse. Sessions that begin above it, by the default of their role, database or pool, get a transaction around
 * each statement: three round trips instead of one.
 */
export async function workersPool(pool: pg.Pool, deadlineMs: number, logger: Logger): Promise<pg.Pool> {
  const plain = poolWithDeadline(pool, deadlineMs);
  const { rows } = await plain.query<{ level: string }>(
    `select current_setting('default_transaction_isolation') as level`,
  );
  const level = rows[0]?.level ?? '';
  if (level === 'read committed' || level === 'read uncommitted') {
    return plain;
  }
  logger.warn(
    { level },
    'Sessions begin above READ COMMITTED here; each statement of the workers takes three round trips to run at it. A role of their own with that default saves them',
  );
  return readCommittedPool(pool, deadlineMs);
}

/** The same pool, except that each `query` rejects when it is not answered in time. */
export function poolWithDeadline(pool: pg.Pool, deadlineMs: number): pg.Pool {
  return poolWithQuery(pool, (client, text, values) => withDeadline(client, deadlineMs).query(text, values));
}

/** The same pool, except that each `query` is a transaction of its own at READ COMMITTED. */
export function readCommittedPool(pool: pg.Pool, deadlineMs: number): pg.Pool {
  return poolWithQuery(pool, async (client, text, values) => {
    const ours = withDeadline(client, deadlineMs);
    await ours.query(beginReadCommitted);
    const result = await ours.query(text, values);
    await ours.query('commit');
    return result;
  });
}

type Ask = (client: pg.PoolClient, text: string, values?: unknown[]) => Promise<unknown>;

function poolWithQuery(pool: pg.Pool, ask: Ask): pg.Pool {
  const query = async (text: string, values?: unknown[]): Promise<unknown> => {
    const client = await pool.connect();
    let failed = false;
    try {
      return await ask(client, text, values);
    } catch (error) {
      failed = true;
      throw error;
    } finally {
      // As a pool's own `query` does: closing the connection rolls back what may be open, and ends what may hang.
      client.release(failed);
    }
  };
  return new Proxy(pool, {
    get: (target, name) => {
      if (name === 'query') {
        return query;
      }
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}
