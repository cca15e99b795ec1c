import type { MessageFailureReason } from './message-failure-reason.js';

/** Names one try of one message: settlements match on all three, so that a late holder changes nothing. */
export interface ClaimedTry {
  readonly messageId: string;
  /** The attempt that the claim counted. */
  readonly attempts: number;
}

/** A row of `wh_outbox` or `wh_inbox` that this instance holds. */
export interface ClaimedMessage extends ClaimedTry {
  readonly messageType: string;
  /** JSON text. */
  readonly eventData: string;
  /** JSON text, see `MessageMetadata`. */
  readonly metadata: string;
  readonly streamId: string | null;
  readonly sequence: string;
  readonly destination: string;
  /** Milliseconds since it was stored. */
  readonly ageMs: number;
  readonly status: number;
  /** Its lease has run out twice: it may be what kills its holders, and is tried alone. */
  readonly suspect: boolean;
  /** A dead letter of its stream wants it to follow (policy `park`). */
  readonly parked: boolean;
  /** The last failure's text, `null` when there was none. */
  readonly lastError: string | null;
  readonly lastReason: number;
}

export interface FailedTry extends ClaimedTry {
  /** MessageProcessingStatus bits of what was done before it failed. */
  readonly completedStatus: number;
  readonly error: string;
  readonly reason: MessageFailureReason;
  /** Groups failures of one kind, see `errorFingerprint`. */
  readonly fingerprint?: string;
  /** Milliseconds until the next try, instead of the backoff. */
  readonly delayMs?: number;
  /** Trying again cannot help: to the dead letters now, with its own reason. */
  readonly permanent?: boolean;
  /** What its failure means for its stream. Default `block`. */
  readonly policy?: StreamFailurePolicy;
  /** It is given up without having been tried: the claim's attempt does not count. */
  readonly untried?: boolean;
}

/**
 * What the failure of a message means for the later ones of its stream.
 *
 * - `block`: they wait until it is published, handled or dead-lettered
 * - `continue`: they may pass it while it waits for its retry
 * - `park`: they wait, and when it is dead-lettered they follow it, to be brought back in order
 */
export type StreamFailurePolicy = 'block' | 'continue' | 'park';

/** How failures are answered; see `process_outbox_failures`. */
export interface FailureSettings {
  /** Tries before the dead letters; `null`: for ever. */
  readonly maxAttempts: number | null;
  readonly baseSeconds: number;
  readonly maxFactor: number;
  readonly jitter: number;
  readonly generation: string;
}

/** Keys whose rows are put off instead of claimed: destinations for the outbox, message types for the inbox. */
export interface ClosedKeys {
  readonly keys: readonly string[];
  readonly seconds: readonly number[];
  /** True: one row is let through, to find out. */
  readonly trials: readonly boolean[];
}

/** What a worker reports back: what is done, what failed, and what it never tried. */
export interface Settlements {
  readonly completed: readonly ClaimedTry[];
  readonly failed: readonly FailedTry[];
  readonly released: readonly ClaimedTry[];
  /** Untried rows of a stream of which there is enough in hand: to wait outside the claims until that has gone (inbox only). */
  readonly deferred?: readonly ClaimedTry[];
}

export interface ClaimRequest {
  /** Zero: settle only. */
  readonly limit: number;
  readonly maxBytes: number;
  readonly leaseSeconds: number;
  /** Take followers of heads that others hold out of the way of claims; asked for when full looks keep finding nothing. */
  readonly blockLeased: boolean;
  readonly closed: ClosedKeys;
}

export interface ClaimResult {
  readonly claimed: readonly ClaimedMessage[];
  /** Settlements that this instance no longer held: its lease had run out and the row was somebody else's. */
  readonly staleIds: readonly string[];
  /** Failures that ended in the dead letters. */
  readonly deadIds: readonly string[];
  /** Rows looked at; as many as the limit while nothing is claimed means that more may lie behind them. */
  readonly candidates: number;
  /** Milliseconds until something becomes due, `null` when nothing is known to. */
  readonly dueMs: number | null;
}

export const nothingToSettle: Settlements = { completed: [], failed: [], released: [] };
