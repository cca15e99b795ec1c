import type pg from 'pg';
import type { SchemaName } from '../database/schema-name.js';
import type { DoorbellChannel } from './doorbell-listener.js';

/** The doorbells' SQL. */
export class DoorbellStore {
  readonly #pool: pg.Pool;
  readonly #prefix: string;

  constructor(pool: pg.Pool, schema: SchemaName) {
    this.#pool = pool;
    this.#prefix = schema.prefix;
  }

  /** Arms and commits; returns the horizon: every transaction that may have seen the doorbell unarmed is below it. */
  async arm(channel: DoorbellChannel, holder: string): Promise<bigint> {
    await this.#pool.query(`select ${this.#prefix}arm_doorbell($1, $2)`, [channel, holder]);
    // A later statement on purpose: the snapshot must be younger than the commit of the arming.
    const { rows } = await this.#pool.query<{ horizon: string }>(
      'select pg_snapshot_xmax(pg_current_snapshot())::text as horizon',
    );
    return BigInt(rows[0]?.horizon ?? 0);
  }

  async hasPassed(horizon: bigint): Promise<boolean> {
    const { rows } = await this.#pool.query<{ passed: boolean }>(
      'select pg_snapshot_xmin(pg_current_snapshot())::text::numeric >= $1::numeric as passed',
      [horizon.toString()],
    );
    return rows[0]?.passed === true;
  }

  async disarm(channel: DoorbellChannel, holder: string): Promise<void> {
    await this.#pool.query(`select ${this.#prefix}disarm_doorbell($1, $2)`, [channel, holder]);
  }
}
