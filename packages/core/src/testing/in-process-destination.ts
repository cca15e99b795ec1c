import type { OutgoingMessage } from '../contract/transport.js';
import type { ServiceQueue, StoredMessage } from './service-queue.js';

/** Where messages are sent to: knows which queues want which message types. */
export class Destination {
  readonly #queuesByType = new Map<string, Set<ServiceQueue>>();
  readonly #taps = new Set<(message: StoredMessage) => void>();

  bind(queue: ServiceQueue, messageTypes: readonly string[]): void {
    for (const type of messageTypes) {
      const queues = this.#queuesByType.get(type);
      if (queues === undefined) this.#queuesByType.set(type, new Set([queue]));
      else queues.add(queue);
    }
  }

  tap(listener: (message: StoredMessage) => void): () => void {
    this.#taps.add(listener);
    return () => void this.#taps.delete(listener);
  }

  /** Hands the message to everyone who wants it; false when nobody does. */
  store(message: OutgoingMessage): boolean {
    const queues = this.#queuesByType.get(message.messageType);
    if (queues === undefined && this.#taps.size === 0) return false;
    const stored = {
      ...message,
      attributes: { ...message.attributes },
      headers: { ...message.headers },
      // The sender may reuse its buffer as soon as it has the outcome.
      body: Buffer.from(message.body),
    };
    for (const queue of queues ?? []) queue.push(stored);
    for (const tap of this.#taps) tap(stored);
    return true;
  }
}
