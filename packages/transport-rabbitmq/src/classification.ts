import { type ClassifiedCondition, MessageFailureReason } from '@whizbang/core/transport';

type Rows = Record<string, ClassifiedCondition>;
type Reason = keyof typeof MessageFailureReason;

const retry = (reason: Reason, condition: string): ClassifiedCondition => ({
  condition,
  reason: MessageFailureReason[reason],
  retryable: true,
});
const final = (reason: Reason, condition: string): ClassifiedCondition => ({
  condition,
  reason: MessageFailureReason[reason],
  retryable: false,
});

/** By AMQP reply code. 406 and 501 say by their text alone what was wrong, and have rows below. */
export const byReplyCode = {
  311: final('MessageBodyTooLarge', '311 CONTENT_TOO_LARGE'),
  312: retry('TransportNotReady', '312 NO_ROUTE: no queue is bound for the message type'),
  313: retry('TransportNotReady', '313 NO_CONSUMERS'),
  320: retry('TransportNotReady', '320 CONNECTION_FORCED: the broker stops, or an operator closed the connection'),
  402: final('ValidationError', '402 INVALID_PATH'),
  403: final('SecurityContextEstablishmentFailure', '403 ACCESS_REFUSED: credentials, or a permission is missing'),
  404: retry('TransportNotReady', '404 NOT_FOUND: the exchange or queue is missing'),
  405: retry('TransportNotReady', '405 RESOURCE_LOCKED: an exclusive queue of another connection'),
  501: retry('TransportException', '501 FRAME_ERROR'),
  502: retry('TransportException', '502 SYNTAX_ERROR'),
  503: retry('TransportException', '503 COMMAND_INVALID'),
  504: retry('TransportException', '504 CHANNEL_ERROR'),
  505: retry('TransportException', '505 UNEXPECTED_FRAME'),
  506: retry('Throttled', '506 RESOURCE_ERROR'),
  530: final('ValidationError', '530 NOT_ALLOWED'),
  540: final('ValidationError', '540 NOT_IMPLEMENTED'),
  541: retry('TransportException', '541 INTERNAL_ERROR'),
} as const satisfies Rows;

/** Everything else that the broker, amqplib, Node or this transport itself can say. */
export const byName = {
  messageTooLargeForBroker: final('MessageBodyTooLarge', '406 PRECONDITION_FAILED: larger than max size'),
  unknownDeliveryTag: retry('TransportException', '406 PRECONDITION_FAILED: unknown delivery tag'),
  acknowledgementTimedOut: retry('TransportException', '406 PRECONDITION_FAILED: delivery acknowledgement timed out'),
  preconditionFailed: final(
    'ValidationError',
    '406 PRECONDITION_FAILED: anything else, such as inequivalent arguments',
  ),
  frameTooLarge: final('MessageBodyTooLarge', '501 FRAME_ERROR: frame_too_large, the headers do not fit into a frame'),
  unreachable: retry(
    'TransportNotReady',
    'ECONNREFUSED, ENOTFOUND, EAI_AGAIN, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT: the broker is out of reach',
  ),
  noHandshake: retry('TransportNotReady', 'no answer to the handshake, or the socket closed during it'),
  vhostRefused: retry(
    'TransportNotReady',
    'the vhost is refused: missing, not permitted, or at its connection limit (the broker does not tell which)',
  ),
  noChannelLeft: retry('TransportNotReady', 'no channel left on the connection'),
  mechanismRefused: final('SecurityContextEstablishmentFailure', 'the broker does not offer the SASL mechanism'),
  tls: final(
    'SecurityContextEstablishmentFailure',
    'TLS: certificate expired, self-signed, for another host; no common protocol',
  ),
  wrongProtocol: final('ValidationError', 'a connection option that amqplib refuses'),
  lostIdle: retry(
    'TransportNotReady',
    'the connection or channel is lost, nothing sent: ECONNRESET, EPIPE, heartbeat timeout',
  ),
  lostInFlight: retry('TransportException', 'the connection or channel is lost with the message sent: outcome unknown'),
  confirmTimeout: retry('TransportException', 'no confirm within confirmTimeoutMs: outcome unknown'),
  blocked: retry('Throttled', 'no confirm within confirmTimeoutMs while a memory or disk alarm blocks the connection'),
  nacked: retry('Throttled', 'basic.nack: the queue is full (reject-publish) or not available'),
  channelClosed: retry('TransportNotReady', 'IllegalOperationError: the channel is closed, nothing was sent'),
  notABuffer: final('SerializationError', 'the body is not a Buffer'),
  wrongField: final('ValidationError', 'a property is no string, too long for AMQP (255 bytes), or not valid Unicode'),
  headersTooLarge: final('MessageBodyTooLarge', 'the headers exceed 65,536 bytes, or what fits into one frame'),
  bodyTooLarge: final('MessageBodyTooLarge', 'the body exceeds maxMessageBytes, found before sending'),
  unknown: retry('Unknown', 'anything else'),
} as const satisfies Rows;

export const classification: Readonly<Rows> = { ...byReplyCode, ...byName };
