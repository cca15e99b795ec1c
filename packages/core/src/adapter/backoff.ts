/** Pauses that double from `first` to `most` ms, each off by up to 20 % so that clients do not come back in step. */
export class Backoff {
  readonly #first: number;
  readonly #most: number;
  #next: number;

  constructor(first: number, most: number) {
    this.#first = first;
    this.#most = most;
    this.#next = first;
  }

  /** In ms. */
  next(): number {
    const pause = this.#next;
    this.#next = Math.min(pause * 2, this.#most);
    return pause * (0.8 + Math.random() * 0.4);
  }

  reset(): void {
    this.#next = this.#first;
  }

  /** The next pause is the longest: for what nobody but an operator can mend. */
  jumpToLongest(): void {
    this.#next = this.#most;
  }
}
