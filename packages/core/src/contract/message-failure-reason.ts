/**
 * Why a message could not be published or handled. The numbers are stored in `failure_reason`
 * and never change; 9 is unused. `Unknown` is the value of a row that never failed, too.
 */
export const MessageFailureReason = {
  /** No failure. */
  None: 0,
  /** The transport is not connected, or what it needs on the broker does not exist yet. */
  TransportNotReady: 1,
  /** The transport failed while it was publishing; the outcome may be unknown. */
  TransportException: 2,
  /** The message cannot be turned into bytes, or the bytes into a message. */
  SerializationError: 3,
  /** The message, or the set-up it was sent with, breaks a rule. */
  ValidationError: 4,
  /** The message used up its attempts and was dead-lettered. */
  MaxAttemptsExceeded: 5,
  /** The lease ran out while the message was being worked on. */
  LeaseExpired: 6,
  /** The event store refused the event. */
  EventStorageFailure: 7,
  /** The broker asked for a slower pace, or refused for lack of room. */
  Throttled: 8,
  /** Credentials, certificates or permissions were refused. */
  SecurityContextEstablishmentFailure: 10,
  /** The stream id was the all-zero UUID, a producer's mistake. */
  EmptyStreamId: 11,
  /** The message is larger than the broker takes. */
  MessageBodyTooLarge: 12,
  /** The body lives elsewhere and its store is unknown here. */
  BodyClaimProviderUnknown: 13,
  /** The body lives elsewhere and does not match its checksum. */
  BodyClaimIntegrityFailure: 14,
  /** A composite message holds more inner events than allowed. */
  CompositeInnerEventLimitExceeded: 15,
  /** A composite message could not be taken apart. */
  CompositeExpansionFailure: 16,
  /** Not classified. */
  Unknown: 99,
} as const;

export type MessageFailureReason = (typeof MessageFailureReason)[keyof typeof MessageFailureReason];

const nameByReason = new Map<number, string>(
  Object.entries(MessageFailureReason).map(([name, value]) => [value, name]),
);

/** The name of a reason, for logs and metrics: `8` is `'Throttled'`. A number that is not a reason is `'Unknown'`. */
export function failureReasonName(reason: number): string {
  return nameByReason.get(reason) ?? 'Unknown';
}
