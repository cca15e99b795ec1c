import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import type { SchemaName } from '../database/schema-name.js';
import { pause } from '../runtime/clock.js';
import type { InstanceIdentity } from '../runtime/instance-identity.js';

export interface DutySettings {
  readonly pool: pg.Pool;
  readonly schema: SchemaName;
  readonly identity: InstanceIdentity;
  readonly logger: Logger;
  /** Called when this instance has been elected. */
  readonly onElected: () => void;
}

const duty = 'maintenance';
// Asked for every 15 s and held for 40: a dead instance is followed within 55 s.
const askIntervalMs = 15_000;
const leaseSeconds = 40;

/** Elects the one instance of a service that does recovery, maintenance and the sentinel. */
export class Duty {
  readonly #settings: DutySettings;
  readonly #stop = new AbortController();
  // The holder's id of its own: the identity may be renewed while the duty stays.
  readonly #holder: string;
  #elected = false;
  #running: Promise<void> | undefined;

  constructor(settings: DutySettings) {
    this.#settings = settings;
    this.#holder = settings.identity.current;
  }

  get elected(): boolean {
    return this.#elected;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    if (this.#elected) {
      this.#elected = false;
      const { pool, schema, logger } = this.#settings;
      await pool.query(`select ${schema.prefix}release_duty($1, $2)`, [duty, this.#holder]).catch((error: unknown) => {
        logger.debug({ error: String(error) }, 'The duty could not be released; it ends by itself');
      });
    }
  }

  async #run(): Promise<void> {
    const { pool, schema, logger, onElected } = this.#settings;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const before = this.#elected;
      try {
        const { rows } = await pool.query<{ elected: boolean }>(
          `select ${schema.prefix}acquire_duty($1, $2, $3) as elected`,
          [duty, this.#holder, leaseSeconds],
        );
        this.#elected = rows[0]?.elected === true;
      } catch (error) {
        // Not known to be elected is not elected.
        this.#elected = false;
        logger.debug({ error: String(error) }, 'The duty could not be asked for');
      }
      if (this.#elected && !before) {
        onElected();
      }
      await pause(askIntervalMs, signal);
    }
  }
}
