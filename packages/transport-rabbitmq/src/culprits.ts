import { replyCode, sizeLimitOf } from './errors.js';
import type { PendingMessage } from './pending-message.js';

export interface Verdict {
  /** The messages that the broker has closed the channel for: they fail with its reason. */
  readonly culprits: readonly PendingMessage[];
  /** Unconfirmed only because they shared the channel: they go again. With no culprit found, one by one, to find it. */
  readonly innocent: readonly PendingMessage[];
  /** The broker refuses this exchange as a whole. */
  readonly wholeDestination: boolean;
}

/** The broker names no message when it closes a channel; which one it was is told by what the reason says of it. */
export function findCulprits(unconfirmed: readonly PendingMessage[], closedBy: Error): Verdict {
  const code = replyCode(closedBy);
  // Permissions may be set per routing key.
  const topic = /access to topic '(.*)' in exchange/.exec(closedBy.message)?.[1];
  if (code === 403 && topic === undefined) return { culprits: unconfirmed, innocent: [], wholeDestination: true };
  const limit = sizeLimitOf(closedBy);
  const isCulprit = (pending: PendingMessage): boolean => {
    if (topic !== undefined) return pending.message.messageType === topic;
    if (limit !== undefined) return pending.message.body.length > limit;
    // A deleted exchange is nobody's fault the first time.
    if (code === 404) return pending.maybeStored;
    return unconfirmed.length === 1;
  };
  return {
    culprits: unconfirmed.filter((pending) => isCulprit(pending)),
    innocent: unconfirmed.filter((pending) => !isCulprit(pending)),
    wholeDestination: false,
  };
}
