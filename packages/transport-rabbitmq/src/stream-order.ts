import type { PendingMessage } from './pending-message.js';

/**
 * Lets one message of a stream go at a time, over all calls of `publish` and all destinations. With two in the broker's
 * hands, the first may be refused and the second stored: of 600 pipelined into a full queue, 75 were confirmed out of turn.
 */
export class StreamOrder {
  readonly #streams = new Map<string, PendingMessage[]>();

  /** Queues a message behind those of its stream. True when there are none, so that it may be sent now. */
  enter(pending: PendingMessage): boolean {
    const { streamId } = pending.message;
    if (streamId === null) return true;
    const stream = this.#streams.get(streamId);
    if (stream === undefined) this.#streams.set(streamId, [pending]);
    else stream.push(pending);
    return stream === undefined;
  }

  /** Takes a confirmed message out; returns the one of its stream that may be sent now. */
  confirmed({ message: { streamId } }: PendingMessage): PendingMessage | undefined {
    if (streamId === null) return undefined;
    const stream = this.#streams.get(streamId);
    stream?.shift();
    if (stream?.length === 0) this.#streams.delete(streamId);
    return stream?.[0];
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
