import type { PendingMessage } from './pending-message.js';

interface Stream {
  readonly messages: PendingMessage[];
  /** How many of them, from the first on, are on their way to their partition. */
  going: number;
}

/**
 * Keeps each stream in order over all calls of `publish`. Messages of one stream and one partition may go together, for a
 * record batch is stored whole or not at all; what follows them to another partition waits until all of them are confirmed.
 */
export class StreamOrder {
  readonly #streams = new Map<string, Stream>();

  /** Queues a message behind those of its stream. True when it may go to its partition now. */
  enter(pending: PendingMessage): boolean {
    const { streamId } = pending.message;
    if (streamId === null) return true;
    const stream = this.#streams.get(streamId) ?? { messages: [], going: 0 };
    this.#streams.set(streamId, stream);
    const last = stream.messages.at(-1);
    const goes = stream.going === stream.messages.length && (last === undefined || last.lane === pending.lane);
    stream.messages.push(pending);
    if (goes) stream.going += 1;
    return goes;
  }

  /** Takes a confirmed message out; returns those of its stream that may go to their partition now. */
  confirmed({ message: { streamId } }: PendingMessage): PendingMessage[] {
    const stream = streamId === null ? undefined : this.#streams.get(streamId);
    if (streamId === null || stream === undefined) return [];
    const { messages } = stream;
    messages.shift();
    stream.going -= 1;
    const next = messages[0];
    if (next === undefined) this.#streams.delete(streamId);
    if (next === undefined || stream.going > 0) return [];
    const end = messages.findIndex(({ lane }) => lane !== next.lane);
    stream.going = end === -1 ? messages.length : end;
    return messages.slice(0, stream.going);
  }

  /** Takes out a message that was not confirmed, with all that stand behind it in its stream; returns those. */
  cut(pending: PendingMessage): PendingMessage[] {
    const { streamId } = pending.message;
    const stream = streamId === null ? undefined : this.#streams.get(streamId);
    if (streamId === null || stream === undefined) return [];
    const at = stream.messages.indexOf(pending);
    const [, ...behind] = stream.messages.splice(at);
    stream.going = Math.min(stream.going, at);
    if (stream.messages.length === 0) this.#streams.delete(streamId);
    return behind;
  }
}
