import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import type { SchemaName } from '../database/schema-name.js';
import { monotonicMs, pause } from '../runtime/clock.js';
import type { InstanceIdentity } from '../runtime/instance-identity.js';
import { WakeSignal } from '../runtime/wake-signal.js';

/** Work that one instance does for all of a service. Each is a duty of its own: who has one of them switched off must not keep the others from it. */
export type DutyName = 'maintenance' | 'recovery';

export interface DutySettings {
  readonly name: DutyName;
  readonly pool: pg.Pool;
  readonly schema: SchemaName;
  readonly identity: InstanceIdentity;
  readonly logger: Logger;
  /** Called when this instance has been elected. */
  readonly onElected: () => void;
}

// Asked for every 15 s and held for 40: a dead instance is followed within 55 s.
const askIntervalMs = 15_000;
const leaseSeconds = 40;
// Anybody in the database may NOTIFY that the duty is free.
const leastIntervalMs = 250;

/** Elects the one instance of a service that does something for all: recovery, or maintenance with the sentinel. */
export class Duty {
  readonly #settings: DutySettings;
  readonly #stop = new AbortController();
  readonly #wake = new WakeSignal();
  // The holder's id of its own: the identity may be renewed while the duty stays.
  readonly #holder: string;
  // Until when the lease is known to be ours; 0: it is not.
  #electedUntilMs = 0;
  #running: Promise<void> | undefined;

  constructor(settings: DutySettings) {
    this.#settings = settings;
    this.#holder = settings.identity.current;
  }

  get elected(): boolean {
    return monotonicMs() < this.#electedUntilMs;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Asks now: the duty may have become free. */
  wake(): void {
    if (!this.elected) {
      this.#wake.ring();
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#wake.ring();
    await this.#running;
    if (this.elected) {
      this.#electedUntilMs = 0;
      const { name, pool, schema, logger } = this.#settings;
      await pool.query(`select ${schema.prefix}release_duty($1, $2)`, [name, this.#holder]).catch((error: unknown) => {
        logger.debug({ error: String(error) }, 'The duty could not be released; it ends by itself');
      });
    }
  }

  async #run(): Promise<void> {
    const { name, pool, schema, logger, onElected } = this.#settings;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const before = this.elected;
      const askedAtMs = monotonicMs();
      try {
        const { rows } = await pool.query<{ elected: boolean }>(
          `select ${schema.prefix}acquire_duty($1, $2, $3) as elected`,
          [name, this.#holder, leaseSeconds],
        );
        this.#electedUntilMs = rows[0]?.elected === true ? askedAtMs + leaseSeconds * 1000 : 0;
      } catch (error) {
        // The lease that was granted before still stands until it ends.
        logger.debug({ error: String(error) }, 'The duty could not be asked for');
      }
      if (this.elected && !before) {
        onElected();
      }
      await this.#wake.wait(askIntervalMs);
      await pause(askedAtMs + leastIntervalMs - monotonicMs(), signal);
    }
  }
}
