import type pg from 'pg';
import type { Logger } from '../contract/logger.js';

/** Begins a transaction of ours, whatever the role's or the database's default is. */
export const beginReadCommitted = 'begin isolation level read committed';

/**
 * The pool for what the workers do. Claims and settlements look again at what has changed while they waited for a lock, which
 * is what READ COMMITTED does and the levels above it refuse. Sessions that begin above it, by the default of their role,
 * database or pool, get a transaction around each statement: three round trips instead of one.
 */
export async function readCommittedWorkers(pool: pg.Pool, logger: Logger): Promise<pg.Pool> {
  const { rows } = await pool.query<{ level: string }>(
    `select current_setting('default_transaction_isolation') as level`,
  );
  const level = rows[0]?.level ?? '';
  if (level === 'read committed' || level === 'read uncommitted') {
    return pool;
  }
  logger.warn(
    { level },
    'Sessions begin above READ COMMITTED here; each statement of the workers takes three round trips to run at it. A role of their own with that default saves them',
  );
  return readCommittedPool(pool);
}

/** The same pool, except that each `query` is a transaction of its own at READ COMMITTED. */
export function readCommittedPool(pool: pg.Pool): pg.Pool {
  const query = async (text: string, values?: unknown[]): Promise<pg.QueryResult> => {
    const client = await pool.connect();
    let broken = false;
    try {
      await client.query(beginReadCommitted);
      const result = await client.query(text, values);
      await client.query('commit');
      return result;
    } catch (error) {
      broken = await client.query('rollback').then(
        () => false,
        () => true,
      );
      throw error;
    } finally {
      client.release(broken);
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
