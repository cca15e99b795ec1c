import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import { boundedPool } from './bounded-pool.js';

/** The same pool twice, with two deadlines. */
export interface WorkerPools {
  /** For what is done for each message. */
  readonly pool: pg.Pool;
  /** For statements that walk over many rows. */
  readonly patientPool: pg.Pool;
}

/**
 * The pools for what the workers do. Claims and settlements look again at what has changed while they waited for a lock, which
 * is what READ COMMITTED does and the levels above it refuse. Sessions that begin above it, by the default of their role,
 * database or pool, get a transaction around each statement: three round trips instead of one.
 */
export async function workerPools(
  pool: pg.Pool,
  { deadlineMs, patienceMs, logger }: { deadlineMs: number; patienceMs: number; logger: Logger },
): Promise<WorkerPools> {
  const { rows } = await boundedPool(pool, deadlineMs).query<{ level: string }>(
    `select current_setting('default_transaction_isolation') as level`,
  );
  const level = rows[0]?.level ?? '';
  const readCommitted = level !== 'read committed' && level !== 'read uncommitted';
  if (readCommitted) {
    logger.warn(
      { level },
      'Sessions begin above READ COMMITTED here; each statement of the workers takes three round trips to run at it. A role of their own with that default saves them',
    );
  }
  return {
    pool: boundedPool(pool, deadlineMs, { readCommitted }),
    patientPool: boundedPool(pool, patienceMs, { readCommitted }),
  };
}
