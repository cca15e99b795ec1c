import type { HeldMessage } from '../runtime/lanes.js';

/**
 * The rows that the publisher has claimed and not handed to the transport yet, in their order. A stream is in one batch at a
 * time: what follows waits here until that batch has ended, for its end may be a failure.
 */
export class RowsInHand {
  #waiting: HeldMessage[] = [];
  readonly #streamsUnderWay = new Set<string>();

  /** Rows that wait to be handed over. */
  get size(): number {
    return this.#waiting.length;
  }

  /** Whether a row that is tried alone waits. */
  get hasSuspect(): boolean {
    return this.#waiting.some((row) => row.suspect);
  }

  add(rows: readonly HeldMessage[]): void {
    this.#waiting.push(...rows);
  }

  /**
   * Takes the next batch: up to `max` rows of one holder whose streams are in no other batch, and none from a suspect on.
   * {@link ended} gives their streams free.
   */
  take(max: number): readonly HeldMessage[] {
    const batch: HeldMessage[] = [];
    const left: HeldMessage[] = [];
    const others = new Set(this.#streamsUnderWay);
    let closed = false;
    for (const row of this.#waiting) {
      closed ||= batch.length >= max || row.suspect || (batch[0] ?? row).holder !== row.holder;
      if (closed || (row.streamId !== null && others.has(row.streamId))) {
        left.push(row);
      } else {
        batch.push(row);
        this.#underWay(row);
      }
    }
    this.#waiting = left;
    return batch;
  }

  /** Takes a suspect when nothing stands before it. */
  takeSuspect(): readonly HeldMessage[] {
    const [first] = this.#waiting;
    if (first?.suspect !== true) {
      return [];
    }
    this.#waiting.shift();
    this.#underWay(first);
    return [first];
  }

  /** A batch is no longer with the transport. */
  ended(batch: readonly HeldMessage[]): void {
    for (const { streamId } of batch) {
      if (streamId !== null) {
        this.#streamsUnderWay.delete(streamId);
      }
    }
  }

  /** Gives out the rows of streams that have stopped, to be put down. */
  stop(streams: ReadonlySet<string>): readonly HeldMessage[] {
    if (streams.size === 0) {
      return [];
    }
    const isStopped = ({ streamId }: HeldMessage) => streamId !== null && streams.has(streamId);
    const stopped = this.#waiting.filter(isStopped);
    this.#waiting = this.#waiting.filter((row) => !isStopped(row));
    return stopped;
  }

  /** Gives out all rows, to be put down. */
  clear(): readonly HeldMessage[] {
    return this.#waiting.splice(0);
  }

  #underWay({ streamId }: HeldMessage): void {
    if (streamId !== null) {
      this.#streamsUnderWay.add(streamId);
    }
  }
}
