import { ConfigurationError } from '../errors/whizbang-error.js';
import { MessageDeque } from './message-deque.js';

/** A message as the in-process broker keeps it; queues share it, so nobody outside the broker may touch it. */
export interface StoredMessage {
  readonly messageId: string;
  readonly destination: string;
  readonly messageType: string;
  readonly streamId: string | null;
  readonly attributes: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** A message in one queue. */
export interface QueuedMessage {
  readonly message: StoredMessage;
  redelivered: boolean;
}

export interface QueueConsumer {
  /** There may be something to take. */
  wake(): void;
}

/** The queue of one service: what was routed to it and is not acknowledged yet. */
export class ServiceQueue {
  readonly service: string;
  readonly #waiting = new MessageDeque<QueuedMessage>();
  readonly #consumers: QueueConsumer[] = [];
  #ordered = true;
  #taken = 0;

  constructor(service: string) {
    this.service = service;
  }

  /** Messages that are waiting or in the hands of a consumer. */
  get depth(): number {
    return this.#waiting.length + this.#taken;
  }

  push(message: StoredMessage): void {
    this.#waiting.push({ message, redelivered: false });
    this.#wake();
  }

  /** @throws ConfigurationError when the consumers already there disagree about `ordered`, which belongs to the queue. */
  attach(consumer: QueueConsumer, ordered: boolean): void {
    if (this.#consumers.length > 0 && ordered !== this.#ordered) {
      throw new ConfigurationError(
        `service "${this.service}" is already received with ordered: ${this.#ordered}; all its instances must agree`,
      );
    }
    this.#ordered = ordered;
    this.#consumers.push(consumer);
    consumer.wake();
  }

  detach(consumer: QueueConsumer): void {
    const position = this.#consumers.indexOf(consumer);
    if (position >= 0) this.#consumers.splice(position, 1);
    this.#wake();
  }

  /** Hands out the next messages; an ordered queue serves only its longest-standing consumer. */
  takeUpTo(count: number, consumer: QueueConsumer): QueuedMessage[] {
    if (this.#ordered && this.#consumers[0] !== consumer) return [];
    const entries = this.#waiting.takeUpTo(count);
    this.#taken += entries.length;
    return entries;
  }

  acknowledge(entries: readonly QueuedMessage[]): void {
    this.#taken -= entries.length;
  }

  /** Takes unacknowledged messages back in front, in the order in which they were handed out. */
  requeue(entries: readonly QueuedMessage[]): void {
    for (const entry of entries) entry.redelivered = true;
    this.#taken -= entries.length;
    this.#waiting.putBack(entries);
    this.#wake();
  }

  clear(): void {
    this.#waiting.clear();
  }

  #wake(): void {
    if (this.#waiting.length === 0) return;
    if (this.#ordered) this.#consumers[0]?.wake();
    else for (const consumer of this.#consumers) consumer.wake();
  }
}
