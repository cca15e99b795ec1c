/** What arrived of the messages 0 … count-1, and what was wrong with it. */
export interface Arrivals {
  readonly arrived: number;
  readonly missing: number;
  readonly duplicates: number;
  /** Messages that came after a later one of their stream. */
  readonly outOfOrder: number;
}

/** Counts arrivals. Streams take turns: message n belongs to stream n mod `streams`. */
export class Tally {
  readonly #seen: Uint8Array;
  readonly #last: Int32Array;
  #arrived = 0;
  #distinct = 0;
  #outOfOrder = 0;

  constructor(count: number, streams: number) {
    this.#seen = new Uint8Array(count);
    this.#last = new Int32Array(streams).fill(-1);
  }

  get distinct(): number {
    return this.#distinct;
  }

  add(sequence: number): void {
    this.#arrived += 1;
    if (this.#seen[sequence] !== 0) return;
    this.#seen[sequence] = 1;
    this.#distinct += 1;
    const stream = sequence % this.#last.length;
    if ((this.#last[stream] ?? -1) > sequence) this.#outOfOrder += 1;
    else this.#last[stream] = sequence;
  }

  arrivals(): Arrivals {
    return {
      arrived: this.#arrived,
      missing: this.#seen.length - this.#distinct,
      duplicates: this.#arrived - this.#distinct,
      outOfOrder: this.#outOfOrder,
    };
  }
}
