import type { PendingMessage } from './pending-message.js';

// amqplib copies every body; this bounds what waits for its confirm beside the count of messages.
const maxBytes = 64 * 2 ** 20;

/** The messages that were sent on one channel and are not confirmed yet, in the order of sending, and their deadline. */
export class UnconfirmedMessages {
  readonly #window: number;
  readonly #timeoutMs: number;
  readonly #onTimeout: (pending: PendingMessage) => void;
  readonly #byId = new Map<string, PendingMessage>();
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param onTimeout Called for a message that was sent `timeoutMs` ago; it is not among the unconfirmed any more. */
  constructor(window: number, timeoutMs: number, onTimeout: (pending: PendingMessage) => void) {
    this.#window = window;
    this.#timeoutMs = timeoutMs;
    this.#onTimeout = onTimeout;
  }

  get size(): number {
    return this.#byId.size;
  }

  hasRoom(): boolean {
    return this.#byId.size < this.#window && this.#bytes < maxBytes;
  }

  has(messageId: string): boolean {
    return this.#byId.has(messageId);
  }

  get(messageId: string): PendingMessage | undefined {
    return this.#byId.get(messageId);
  }

  add(pending: PendingMessage): void {
    this.#byId.set(pending.message.messageId, pending);
    this.#bytes += pending.message.body.length;
    this.#timer ??= setTimeout(() => this.#checkDeadlines(), this.#timeoutMs);
  }

  /** Takes out a message that the broker has answered for. False when it is not here: the answer comes after the deadline. */
  remove(pending: PendingMessage): boolean {
    const { messageId, body } = pending.message;
    if (this.#byId.get(messageId) !== pending) return false;
    this.#byId.delete(messageId);
    this.#bytes -= body.length;
    return true;
  }

  /** Takes everything out and stops the clock: the channel has ended. */
  takeAll(): PendingMessage[] {
    const all = [...this.#byId.values()];
    this.#byId.clear();
    this.#bytes = 0;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return all;
  }

  /** One timer for all: it fires for the oldest, and is set again for the oldest that is left. */
  #checkDeadlines(): void {
    this.#timer = undefined;
    const now = performance.now();
    for (const pending of this.#byId.values()) {
      const left = pending.sentAt + this.#timeoutMs - now;
      if (left > 0) {
        this.#timer = setTimeout(() => this.#checkDeadlines(), left);
        return;
      }
      this.remove(pending);
      this.#onTimeout(pending);
    }
  }
}
