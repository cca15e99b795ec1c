import type { ClaimedMessage } from '../contract/work.js';
import type { FailureJudge } from '../failure/failure-judge.js';
import type { HeldMessage } from './lanes.js';
import type { OwedSettlements } from './owed-settlements.js';

/** Streams whose failure has not reached the database: a claim that was under way may still bring rows of theirs. */
export class StoppedStreams {
  readonly #judge: FailureJudge;
  readonly #owed: OwedSettlements;
  readonly #streams = new Set<string>();

  constructor(judge: FailureJudge, owed: OwedSettlements) {
    this.#judge = judge;
    this.#owed = owed;
  }

  add(streamId: string): void {
    this.#streams.add(streamId);
  }

  has({ streamId }: ClaimedMessage): boolean {
    return streamId !== null && this.#streams.has(streamId);
  }

  /**
   * Around an exchange: the failures that are known now reach the database with it, so it claims nothing of their streams;
   * those that stop meanwhile stay.
   */
  async during<Claimed>(exchange: () => Promise<Claimed>): Promise<Claimed> {
    const delivered = [...this.#streams];
    const claimed = await exchange();
    for (const streamId of delivered) {
      this.#streams.delete(streamId);
    }
    return claimed;
  }

  /**
   * What is to be tried of the rows of a claim. Rows past the cap, and rows that follow a dead letter of their stream, go to the
   * dead letters untried. What follows one past the cap is put down until that is done, and so is what follows a failure that the
   * database did not know of.
   */
  toTry(rows: readonly HeldMessage[]): HeldMessage[] {
    // Row by row: one that is given up stops what follows it in the same claim.
    return rows.filter((row) => {
      if (this.has(row)) {
        this.#owed.add(row.holder, { released: [row] });
        return false;
      }
      const givenUp = this.#judge.givenUp(row);
      if (givenUp === undefined) {
        return true;
      }
      this.#owed.add(row.holder, { failed: [givenUp] });
      if (row.streamId !== null && !row.parked && givenUp.policy !== 'continue') {
        this.add(row.streamId);
      }
      return false;
    });
  }
}
