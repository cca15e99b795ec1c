import type { Whizbang } from '@whizbang/core';
import type pg from 'pg';

import type { Producers } from './producers.js';
import type { SecondWorker } from './second-worker.js';

export interface ProgressSettings {
  readonly pool: pg.Pool;
  readonly run: string;
  readonly orders: Whizbang;
  readonly shipping: Whizbang;
  readonly second: SecondWorker;
  readonly producers: Producers;
  readonly print: (line: string) => void;
}

/** How far one direction has come. */
interface Flow {
  readonly stored: number;
  readonly published: number;
  readonly received: number;
  readonly deduplicated: number;
  readonly handled: number;
}

export interface Snapshot {
  readonly lines: Flow;
  readonly parcels: Flow;
}

const columns = ['stored', 'published', 'received', 'duplicate', 'handled'];
const width = 10;
const cells = (values: readonly (string | number)[]) => values.map((value) => String(value).padStart(width)).join('');

/** One line a second of what was stored, published, received, handled and deduplicated, plain enough for a log file. */
export class Progress {
  readonly #settings: ProgressSettings;
  readonly #begun = performance.now();
  #last = { at: performance.now(), handled: 0 };
  #printed = 0;

  constructor(settings: ProgressSettings) {
    this.#settings = settings;
  }

  async look(): Promise<Snapshot> {
    const { pool, run, orders, shipping, second, producers } = this.#settings;
    // What is committed is counted in the tables; what is done at the broker only the processes know.
    const { rows } = await pool.query<{ parcels: number; confirmations: number }>(
      `select (select count(*)::integer from shipping.parcel where run = $1) as parcels,
              (select count(*)::integer from orders.confirmation where run = $1) as confirmations`,
      [run],
    );
    const { parcels = 0, confirmations = 0 } = rows[0] ?? {};
    const [atOrders, atShipping, atSecond] = [orders.counters, shipping.counters, second.counters];
    return {
      lines: {
        stored: producers.lines,
        published: atOrders.published,
        received: atShipping.received + (atSecond?.received ?? 0),
        deduplicated: atShipping.deduplicated + (atSecond?.deduplicated ?? 0),
        handled: parcels,
      },
      parcels: {
        stored: parcels,
        published: atShipping.published,
        received: atOrders.received,
        deduplicated: atOrders.deduplicated,
        handled: confirmations,
      },
    };
  }

  async print(): Promise<void> {
    const { print } = this.#settings;
    const { lines, parcels } = await this.look();
    if (this.#printed % 20 === 0) {
      const side = width * columns.length;
      print(
        `${' '.repeat(7)}${'  order lines, orders → shipping'.padEnd(side)} │${'  parcels, shipping → orders'.padEnd(side)} │`,
      );
      print(`${'time'.padStart(7)}${cells(columns)} │${cells(columns)} │ handled/s`);
    }
    this.#printed += 1;
    const at = performance.now();
    const handled = lines.handled + parcels.handled;
    const rate = (handled - this.#last.handled) / ((at - this.#last.at) / 1000);
    this.#last = { at, handled };
    const time = `${((at - this.#begun) / 1000).toFixed(1)} s`.padStart(7);
    const flow = (one: Flow) => cells([one.stored, one.published, one.received, one.deduplicated, one.handled]);
    print(`${time}${flow(lines)} │${flow(parcels)} │ ${rate.toFixed(0).padStart(9)}`);
  }
}
