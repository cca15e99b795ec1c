import { type ClassifiedCondition, MessageFailureReason } from '@whizbang/core/transport';

const {
  TransportNotReady,
  TransportException,
  SerializationError,
  ValidationError,
  Throttled,
  SecurityContextEstablishmentFailure,
  MessageBodyTooLarge,
  Unknown,
} = MessageFailureReason;

/** Everything that Azure Service Bus or its SDK can say about a message, and what it is recorded as. */
export const classification = {
  serverBusy: {
    condition: 'ServiceBusy (com.microsoft:server-busy): the namespace is throttled',
    reason: Throttled,
    retryable: true,
  },
  quotaExceeded: {
    condition: 'QuotaExceeded (amqp:resource-limit-exceeded): topic or queue full, too many connections',
    reason: Throttled,
    retryable: true,
  },
  noCredit: {
    condition: 'GeneralError with SenderBusyError or InsufficientCreditError: the broker gives no credit to send',
    reason: Throttled,
    retryable: true,
  },
  messageSize: {
    condition: 'MessageSizeExceeded (amqp:link:message-size-exceeded), or the check before sending',
    reason: MessageBodyTooLarge,
    retryable: false,
  },
  unauthorized: {
    condition: 'UnauthorizedAccess (amqp:unauthorized-access, com.microsoft:auth-failed, 401 from $cbs)',
    reason: SecurityContextEstablishmentFailure,
    retryable: false,
  },
  publisherRevoked: {
    condition: 'GeneralError with PublisherRevokedError (com.microsoft:publisher-revoked)',
    reason: SecurityContextEstablishmentFailure,
    retryable: false,
  },
  noToken: {
    condition: 'CredentialUnavailableError, AuthenticationError, AuthenticationRequiredError of the credential',
    reason: SecurityContextEstablishmentFailure,
    retryable: false,
  },
  tls: {
    condition: 'TLS codes of Node.js (CERT_…, ERR_TLS_…, SELF_SIGNED_…, UNABLE_TO_…, EPROTO)',
    reason: SecurityContextEstablishmentFailure,
    retryable: false,
  },
  entityNotFound: {
    condition: 'MessagingEntityNotFound: topic, queue or subscription is missing',
    reason: TransportNotReady,
    retryable: true,
  },
  entityDisabled: {
    condition: 'MessagingEntityDisabled (com.microsoft:entity-disabled)',
    reason: TransportNotReady,
    retryable: true,
  },
  communication: {
    condition: 'ServiceCommunicationProblem (amqp:not-found without a text, WebSocket refused)',
    reason: TransportNotReady,
    retryable: true,
  },
  unreachable: {
    condition: 'GeneralError with a system error of Node.js (ECONNREFUSED, ENOTFOUND, EAI_AGAIN, …)',
    reason: TransportNotReady,
    retryable: true,
  },
  brokerFault: {
    condition:
      'GeneralError with InternalServerError, OperationCancelledError, ConnectionForcedError, DetachForcedError, TransferLimitExceededError or SenderNotReadyError',
    reason: TransportNotReady,
    retryable: true,
  },
  connectionClosed: {
    condition: 'The SDK says that connection, sender or receiver is closed or reopening',
    reason: TransportNotReady,
    retryable: true,
  },
  timeout: {
    condition: 'ServiceTimeout (com.microsoft:timeout, OperationTimeoutError): no answer, the outcome is unknown',
    reason: TransportException,
    retryable: true,
  },
  linkLost: {
    condition: 'The link or the socket was lost while a send was under way: the outcome is unknown',
    reason: TransportException,
    retryable: true,
  },
  notAccepted: {
    condition: 'GeneralError with SendOperationFailedError: the broker released or modified the message',
    reason: TransportException,
    retryable: true,
  },
  lockLost: {
    condition: 'MessageLockLost, SessionLockLost, MessageNotFound, already settled: the message comes again',
    reason: TransportException,
    retryable: true,
  },
  aborted: {
    condition: 'AbortError: the call was given up',
    reason: TransportException,
    retryable: true,
  },
  sessionTaken: {
    condition: 'SessionCannotBeLocked: another receiver has the session',
    reason: TransportNotReady,
    retryable: true,
  },
  refused: {
    condition:
      'GeneralError with InvalidOperationError, ArgumentError, ArgumentOutOfRangeError, PreconditionFailedError, DecodeError, IllegalStateError, InvalidFieldError or NotImplementedError',
    reason: ValidationError,
    retryable: false,
  },
  tooLong: {
    condition: 'Message id, session id or partition key above 128 characters, or session id and partition key differ',
    reason: ValidationError,
    retryable: false,
  },
  notEncodable: {
    condition: 'TypeError, or the SDK cannot stringify the body',
    reason: SerializationError,
    retryable: false,
  },
  unknown: { condition: 'Anything else', reason: Unknown, retryable: true },
} as const satisfies Record<string, ClassifiedCondition>;
