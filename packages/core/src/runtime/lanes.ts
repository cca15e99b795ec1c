import type { ClaimedMessage } from '../contract/work.js';

/** A row in hand and the id under which it was claimed. */
export interface HeldMessage extends ClaimedMessage {
  readonly holder: string;
}

interface Lane {
  readonly key: string;
  readonly rows: HeldMessage[];
  busy: boolean;
}

/** Rows to be handled together: one, or several of one type for a batch handler. */
export interface Unit {
  readonly messageType: string;
  readonly rows: readonly HeldMessage[];
}

// A batch looks for company in so many lanes, so that gathering stays cheap however many lanes there are.
const lanesSearched = 500;

/**
 * The rows in hand, one lane per stream: a lane gives out its head only when what it gave out before has ended. A row
 * without a stream has a lane of its own.
 */
export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  readonly #runnable = new Set<Lane>();
  readonly #alone = new Set<string>();
  #waiting = 0;

  /** Rows that have not been given out. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Takes rows in hand, in their order.
   *
   * @returns those that found their lane full, to be put down again
   */
  add(rows: readonly HeldMessage[], maxPerLane = Infinity): HeldMessage[] {
    const surplus: HeldMessage[] = [];
    for (const row of rows) {
      const key = row.streamId ?? row.messageId;
      let lane = this.#lanes.get(key);
      if (lane === undefined) {
        lane = { key, rows: [], busy: false };
        this.#lanes.set(key, lane);
      }
      if (lane.rows.length >= maxPerLane) {
        surplus.push(row);
        continue;
      }
      lane.rows.push(row);
      this.#waiting += 1;
      if (!lane.busy) {
        this.#runnable.add(lane);
      }
    }
    return surplus;
  }

  /** Gives out the next unit, oldest lane first, or nothing when every lane is busy or empty. */
  take(maxBatchOf: (messageType: string) => number): Unit | undefined {
    const [lane] = this.#runnable;
    const head = lane?.rows[0];
    if (lane === undefined || head === undefined) {
      return undefined;
    }
    const messageType = head.messageType;
    const max = this.#alone.has(head.messageId) ? 1 : maxBatchOf(messageType);
    const rows = this.#takeFrom(lane, messageType, max);
    if (max > rows.length) {
      let searched = 0;
      for (const other of this.#runnable) {
        searched += 1;
        if (rows.length >= max || searched > lanesSearched) {
          break;
        }
        rows.push(...this.#takeFrom(other, messageType, max - rows.length));
      }
    }
    return { messageType, rows };
  }

  /** The unit has been handled: its lanes may go on. */
  done(unit: Unit): void {
    for (const row of unit.rows) {
      this.#alone.delete(row.messageId);
    }
    for (const lane of this.#lanesOf(unit)) {
      lane.busy = false;
      if (lane.rows.length === 0) {
        this.#lanes.delete(lane.key);
      } else {
        this.#runnable.add(lane);
      }
    }
  }

  /** The unit was not handled: its lanes end. Returns the rows that waited behind it. */
  stop(unit: Unit): HeldMessage[] {
    const behind: HeldMessage[] = [];
    for (const row of unit.rows) {
      this.#alone.delete(row.messageId);
    }
    for (const lane of this.#lanesOf(unit)) {
      behind.push(...this.#end(lane));
    }
    return behind;
  }

  /** A batch failed and nobody knows for which of its rows: each is given out again, alone, in its old order. */
  separate(unit: Unit): void {
    for (const row of unit.rows) {
      this.#alone.add(row.messageId);
    }
    for (const lane of this.#lanesOf(unit)) {
      const rows = unit.rows.filter((row) => (row.streamId ?? row.messageId) === lane.key);
      lane.rows.unshift(...rows);
      this.#waiting += rows.length;
      lane.busy = false;
      this.#runnable.add(lane);
    }
  }

  /** Ends a lane whose rows are no longer ours to handle, if it has any waiting. */
  stopStream(streamId: string): HeldMessage[] {
    const lane = this.#lanes.get(streamId);
    return lane === undefined || lane.busy ? [] : this.#end(lane);
  }

  /** Puts down everything that was not given out. */
  clear(): HeldMessage[] {
    const rows: HeldMessage[] = [];
    for (const lane of this.#lanes.values()) {
      rows.push(...lane.rows.splice(0));
    }
    this.#runnable.clear();
    this.#waiting = 0;
    return rows;
  }

  #takeFrom(lane: Lane, messageType: string, max: number): HeldMessage[] {
    let count = 0;
    while (
      count < max &&
      lane.rows[count]?.messageType === messageType &&
      (count === 0 || !this.#isAlone(lane, count))
    ) {
      count += 1;
    }
    if (count === 0 || (max > 1 && this.#isAlone(lane, 0))) {
      return [];
    }
    lane.busy = true;
    this.#runnable.delete(lane);
    this.#waiting -= count;
    return lane.rows.splice(0, count);
  }

  #isAlone(lane: Lane, index: number): boolean {
    const row = lane.rows[index];
    return row !== undefined && this.#alone.has(row.messageId);
  }

  #end(lane: Lane): HeldMessage[] {
    this.#lanes.delete(lane.key);
    this.#runnable.delete(lane);
    this.#waiting -= lane.rows.length;
    return lane.rows.splice(0);
  }

  #lanesOf(unit: Unit): Set<Lane> {
    const lanes = new Set<Lane>();
    for (const row of unit.rows) {
      const lane = this.#lanes.get(row.streamId ?? row.messageId);
      if (lane !== undefined) {
        lanes.add(lane);
      }
    }
    return lanes;
  }
}
