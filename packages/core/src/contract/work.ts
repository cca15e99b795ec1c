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
}

export interface FailedTry extends ClaimedTry {
  /** MessageProcessingStatus bits of what was done before it failed. */
  readonly completedStatus: number;
  readonly error: string;
  readonly reason: MessageFailureReason;
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
}

export interface ClaimResult {
  readonly claimed: readonly ClaimedMessage[];
  /** Settlements that this instance no longer held: its lease had run out and the row was somebody else's. */
  readonly staleIds: readonly string[];
  /** Rows looked at; as many as the limit while nothing is claimed means that more may lie behind them. */
  readonly candidates: number;
  /** Milliseconds until something becomes due, `null` when nothing is known to. */
  readonly dueMs: number | null;
}

export const nothingToSettle: Settlements = { completed: [], failed: [], released: [] };
