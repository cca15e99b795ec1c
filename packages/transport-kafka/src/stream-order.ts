import type { PendingMessage } from './pending-message.js';

/**
 * Keeps each stream in order over all calls of `publish`. Messages of one stream and one partition may go together, for a
 * record batch is stored whole or not at all; what follows them to another partition waits until all of them are confirmed.
 */
export class StreamOrder {
  readonly #streams = new Map<string, PendingMessage[]>();

  /** Queues a message behind those of its stream. True when it may go to its partition now. */
  enter(pending: PendingMessage): boolean {
    const { streamId } = pending.message;
    if (streamId === null) return true;
    const stream = this.#streams.get(streamId);
    if (stream === undefined) {
      this.#streams.set(streamId, [pending]);
      return true;
    }
    stream.push(pending);
    return stream.every(({ lane }) => lane === pending.lane);
  }

  /** Takes a confirmed message out; returns those of its stream that may go to their partition now. */
  confirmed(pending: PendingMessage): PendingMessage[] {
    const { streamId } = pending.message;
    const stream = streamId === null ? undefined : this.#streams.get(streamId);
    if (streamId === null || stream === undefined) return [];
    stream.shift();
    const next = stream[0];
    if (next === undefined) this.#streams.delete(streamId);
    if (next === undefined || next.lane === pending.lane) return [];
    const end = stream.findIndex(({ lane }) => lane !== next.lane);
    return stream.slice(0, end === -1 ? stream.length : end);
  }

  /** Takes out a message that was not confirmed, with all that stand behind it in its stream; returns those. */
  cut(pending: PendingMessage): PendingMessage[] {
    const { streamId } = pending.message;
    const stream = streamId === null ? undefined : this.#streams.get(streamId);
    if (streamId === null || stream === undefined) return [];
    const [, ...behind] = stream.splice(stream.indexOf(pending));
    if (stream.length === 0) this.#streams.delete(streamId);
    return behind;
  }
}
