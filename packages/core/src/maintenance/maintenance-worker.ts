import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import type { SchemaName } from '../database/schema-name.js';
import { pause } from '../runtime/clock.js';
import { WakeSignal } from '../runtime/wake-signal.js';
import { findStuckRows, warnOfStuckRows } from './sentinel.js';

export interface MaintenanceWorkerSettings {
  readonly pool: pg.Pool;
  readonly schema: SchemaName;
  readonly logger: Logger;
  readonly elected: () => boolean;
  readonly intervalMinutes: number;
  readonly dedupRetentionDays: number;
  readonly completedRetentionDays: number;
  readonly stuckRowSentinelEnabled: boolean;
  readonly stuckRowSentinelMaxAttempts: number;
  readonly stuckRowSentinelLimit: number;
}

// Small enough that a purge neither holds locks nor fills the log for long.
const purgeBatch = 1_000;

/** Purges and the stuck-row sentinel, every `intervalMinutes`, on the elected instance. */
export class MaintenanceWorker {
  readonly #settings: MaintenanceWorkerSettings;
  readonly #stop = new AbortController();
  readonly #wake = new WakeSignal();
  #running: Promise<void> | undefined;

  constructor(settings: MaintenanceWorkerSettings) {
    this.#settings = settings;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** This instance has been elected. */
  wake(): void {
    this.#wake.ring();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#wake.ring();
    await this.#running;
  }

  /** One cycle. A task that fails does not stop the next. */
  async runOnce(): Promise<void> {
    const { logger, dedupRetentionDays, completedRetentionDays } = this.#settings;
    await this.#task('sentinel', () => this.#watch());
    await this.#task('purge of received ids', () => this.#purge('purge_message_deduplication', dedupRetentionDays));
    await this.#task('purge of completed rows', () => this.#purge('purge_completed_messages', completedRetentionDays));
    logger.debug({}, 'A maintenance cycle ended');
  }

  async #run(): Promise<void> {
    const { elected, intervalMinutes } = this.#settings;
    while (!this.#stop.signal.aborted) {
      if (elected()) {
        await this.runOnce();
      }
      await this.#wake.wait(intervalMinutes * 60_000);
    }
  }

  async #watch(): Promise<void> {
    const { pool, schema, logger, stuckRowSentinelEnabled, stuckRowSentinelMaxAttempts, stuckRowSentinelLimit } =
      this.#settings;
    if (!stuckRowSentinelEnabled) {
      return;
    }
    for (const side of ['outbox', 'inbox'] as const) {
      const rows = await findStuckRows(pool, schema, side, stuckRowSentinelMaxAttempts, stuckRowSentinelLimit);
      warnOfStuckRows(logger, side, rows);
    }
  }

  async #purge(call: string, days: number): Promise<void> {
    const { pool, schema } = this.#settings;
    for (;;) {
      const { rows } = await pool.query<{ purged: number }>(`select ${schema.prefix}${call}($1, $2) as purged`, [
        days,
        purgeBatch,
      ]);
      if ((rows[0]?.purged ?? 0) < purgeBatch || this.#stop.signal.aborted) {
        return;
      }
      await pause(10, this.#stop.signal);
    }
  }

  async #task(name: string, run: () => Promise<void>): Promise<void> {
    try {
      await run();
    } catch (error) {
      this.#settings.logger.warn(
        { task: name, error: String(error) },
        'A maintenance task failed; the next cycle repeats it',
      );
    }
  }
}
