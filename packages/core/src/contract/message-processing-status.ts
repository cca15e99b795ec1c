/**
 * The bits of the `status` column. Several can be set at once, and bits are only ever added:
 * a row that was stored and then failed has `Stored | Failed`, 32769.
 */
export const MessageProcessingStatus = {
  None: 0,
  /** The row is in `wh_outbox` or `wh_inbox`. */
  Stored: 1,
  /** The event is in the event store. */
  EventStored: 2,
  /** The broker has confirmed the message (outbox only). */
  Published: 4,
  /** A try failed at some stage. */
  Failed: 32768,
} as const;

export type MessageProcessingStatus = number;
