import type { PendingMessage } from './pending-message.js';

// Limits of the broker for one batch that its link does not announce.
const maxBatchMessages = 4500;

/**
 * The messages that go out one group after another: those of a session, or of a destination where sessions are not used.
 * A group is atomic at the broker, so a stream is never there with a gap.
 */
export class Lane {
  #queue: PendingMessage[] = [];
  /** While a group that the broker has refused is sent again in smaller pieces. */
  #restricted: { readonly most: number; left: number } | undefined;

  add(pending: PendingMessage): void {
    this.#queue.push(pending);
  }

  /** The first message that waits. Those of other states in front of it are settled. */
  first(): PendingMessage | undefined {
    const at = this.#queue.findIndex(({ state }) => state === 'waiting');
    if (at === -1) this.#queue = [];
    else if (at > 0) this.#queue.splice(0, at);
    return this.#queue[0];
  }

  /** Takes out the next group: messages for one destination, for as long as `fits` says so. */
  take(fits: (pending: PendingMessage) => boolean): PendingMessage[] {
    const destination = this.first()?.message.destination;
    const most = this.#restricted?.most ?? maxBatchMessages;
    const group: PendingMessage[] = [];
    let at = 0;
    for (; at < this.#queue.length && group.length < most; at += 1) {
      const pending = this.#queue[at] as PendingMessage;
      if (pending.state !== 'waiting') continue;
      if (pending.message.destination !== destination || pending.encoded instanceof Error || !fits(pending)) break;
      group.push(pending);
    }
    this.#queue.splice(0, at);
    if (this.#restricted !== undefined) {
      this.#restricted.left -= group.length;
      if (this.#restricted.left <= 0) this.#restricted = undefined;
    }
    return group;
  }

  /** Puts a refused group back to the front, to be sent in groups of at most `most`. */
  putBack(group: readonly PendingMessage[], most: number): void {
    for (const pending of group) pending.state = 'waiting';
    this.#queue = [...group, ...this.#queue];
    this.#restricted = { most: Math.max(1, most), left: group.length };
  }

  /** Takes out what waits of a stream, which goes no further. */
  cut(streamId: string): PendingMessage[] {
    const behind = this.#queue.filter(({ message, state }) => state === 'waiting' && message.streamId === streamId);
    if (behind.length > 0) this.#queue = this.#queue.filter((pending) => !behind.includes(pending));
    return behind;
  }

  /** Takes out everything that waits. */
  takeAll(): PendingMessage[] {
    const all = this.#queue.filter(({ state }) => state === 'waiting');
    this.#queue = [];
    return all;
  }
}
