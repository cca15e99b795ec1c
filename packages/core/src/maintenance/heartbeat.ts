import { hostname } from 'node:os';
import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import type { SchemaName } from '../database/schema-name.js';
import { monotonicMs, pause, settlesWithin } from '../runtime/clock.js';
import type { InstanceIdentity } from '../runtime/instance-identity.js';

export interface HeartbeatSettings {
  readonly pool: pg.Pool;
  readonly schema: SchemaName;
  readonly service: string;
  readonly identity: InstanceIdentity;
  readonly logger: Logger;
  /** What it takes part in: claims share the streams among those who do. */
  readonly parts: { readonly publishes: boolean; readonly handles: boolean };
}

const intervalMs = 10_000;
// An instance that has been silent for so long is dead; fencing makes it harmless if it was only asleep.
const staleSeconds = 35;
// A longer pause between two beats of our own: the database, or we, were away.
const gapMs = 2 * intervalMs;
// A beat that the database does not answer must not take the time in which the instance is to be forgotten.
const lastBeatMs = 1_000;

/**
 * Keeps this instance's row in `wh_service_instances` fresh and, on the way, frees streams whose head was removed by hand.
 */
export class Heartbeat {
  readonly #settings: HeartbeatSettings;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  /** The ids under which this process is registered, or may be: a beat whose answer was lost may have come through. */
  readonly #registered = new Set<string>();
  #beatingSinceMs = 0;
  #lastBeatMs = Number.NEGATIVE_INFINITY;
  /** How far the look for stranded streams has come: a beat looks at some of them, the next goes on from there. */
  #lookedAt: { readonly outbox: string | null; readonly inbox: string | null } = { outbox: null, inbox: null };

  constructor(settings: HeartbeatSettings) {
    this.#settings = settings;
  }

  /** Registers the instance before anything is claimed, then keeps it registered. */
  async start(): Promise<void> {
    await this.#beat();
    this.#running = this.#run();
  }

  /** Forgets the instance. The last to be stopped: until then its leases are somebody's. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await settlesWithin(this.#running ?? Promise.resolve(), lastBeatMs);
    await this.#forget([...this.#registered]).catch((error: unknown) => {
      this.#settings.logger.debug(
        { error: String(error) },
        'The instance could not be deregistered; it is forgotten by itself',
      );
    });
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    for (;;) {
      await pause(intervalMs, signal);
      if (signal.aborted) {
        return;
      }
      try {
        await this.#beat();
      } catch (error) {
        this.#settings.logger.debug({ error: String(error) }, 'A heartbeat failed');
      }
    }
  }

  async #beat(): Promise<void> {
    const { pool, schema, service, identity, logger, parts } = this.#settings;
    const id = identity.current;
    this.#registered.add(id);
    const { rows } = await pool.query<{
      dead: string[] | null;
      outbox_after: string | null;
      inbox_after: string | null;
    }>(
      `select ${schema.prefix}record_heartbeat($1, $2, $3, $4, $8, $5) as dead,
              o.next_after as outbox_after, i.next_after as inbox_after
       from ${schema.prefix}unblock_stranded_outbox_streams(p_after => $6) o,
            ${schema.prefix}unblock_stranded_inbox_streams(p_after => $7) i`,
      [
        id,
        service,
        hostname().slice(0, 200),
        process.pid,
        this.#mayJudge() ? staleSeconds : null,
        this.#lookedAt.outbox,
        this.#lookedAt.inbox,
        JSON.stringify(parts),
      ],
    );
    const { dead, outbox_after: outbox, inbox_after: inbox } = rows[0] ?? {};
    this.#lookedAt = { outbox: outbox ?? null, inbox: inbox ?? null };
    if (dead !== null && dead !== undefined && dead.length > 0) {
      const released = await pool.query<{ leases: number }>(
        `select ${schema.prefix}release_dead_instances($1) as leases`,
        [dead],
      );
      logger.warn(
        { instances: dead, leases: released.rows[0]?.leases },
        'Instances stopped beating; their leases are ended',
      );
    }
    await this.#forget([...this.#registered].filter((registered) => registered !== id));
  }

  /**
   * Who was silent itself judges nobody: after an outage of the database everybody looks dead to the first that is back. Only
   * who has been beating all the while may tell that another has not.
   */
  #mayJudge(): boolean {
    const now = monotonicMs();
    if (now - this.#lastBeatMs > gapMs) {
      this.#beatingSinceMs = now;
    }
    this.#lastBeatMs = now;
    return now - this.#beatingSinceMs >= staleSeconds * 1000;
  }

  async #forget(ids: readonly string[]): Promise<void> {
    const { pool, schema } = this.#settings;
    for (const id of ids) {
      await pool.query(`select ${schema.prefix}deregister_instance($1)`, [id]);
      this.#registered.delete(id);
    }
  }
}
