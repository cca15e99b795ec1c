/** A queue with two cheap ends: messages leave in front, and unacknowledged ones come back in front. */
export class MessageDeque<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  takeUpTo(count: number): T[] {
    const end = Math.min(this.#head + count, this.#items.length);
    const taken = this.#items.slice(this.#head, end) as T[];
    // Taken slots are emptied at once: a slot may be the last reference to a body of megabytes.
    this.#items.fill(undefined, this.#head, end);
    this.#head = end;
    if (this.#head === this.#items.length) this.clear();
    else if (this.#head > 1024 && this.#head * 2 > this.#items.length) this.#compact();
    return taken;
  }

  /** Puts items back in front, the first of them foremost. */
  putBack(items: readonly T[]): void {
    if (items.length > this.#head) {
      this.#items = [...items, ...this.#items.slice(this.#head)];
      this.#head = 0;
      return;
    }
    this.#head -= items.length;
    for (const [offset, item] of items.entries()) this.#items[this.#head + offset] = item;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }

  #compact(): void {
    this.#items = this.#items.slice(this.#head);
    this.#head = 0;
  }
}
