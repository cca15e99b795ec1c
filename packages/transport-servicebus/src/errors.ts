import { type MessageFailureReason, isTlsErrorCode } from '@whizbang/core/transport';
import { classification } from './classification.js';

export interface Classification {
  readonly reason: MessageFailureReason;
  readonly retryable: boolean;
}

/** An error of the transport that already knows what it means for a message. */
export class ServicebusError extends Error {
  readonly classification: Classification;
  /** What the broker asked to wait, in ms. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    because: Classification,
    options?: { cause?: unknown; retryAfterMs?: number | undefined },
  ) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ServicebusError';
    this.classification = because;
    this.retryAfterMs = options?.retryAfterMs;
  }
}

/** By the SDK's code. `GeneralError` says what it was in the first word of its text. */
const byCode: Readonly<Record<string, Classification>> = {
  ServiceBusy: classification.serverBusy,
  QuotaExceeded: classification.quotaExceeded,
  MessageSizeExceeded: classification.messageSize,
  UnauthorizedAccess: classification.unauthorized,
  MessagingEntityNotFound: classification.entityNotFound,
  MessagingEntityDisabled: classification.entityDisabled,
  ServiceCommunicationProblem: classification.communication,
  ServiceTimeout: classification.timeout,
  MessageLockLost: classification.lockLost,
  SessionLockLost: classification.lockLost,
  MessageNotFound: classification.lockLost,
  SessionCannotBeLocked: classification.sessionTaken,
};

const byFirstWord: Readonly<Record<string, Classification>> = {
  SenderBusyError: classification.noCredit,
  InsufficientCreditError: classification.noCredit,
  PublisherRevokedError: classification.publisherRevoked,
  InternalServerError: classification.brokerFault,
  OperationCancelledError: classification.brokerFault,
  ConnectionForcedError: classification.brokerFault,
  DetachForcedError: classification.brokerFault,
  TransferLimitExceededError: classification.brokerFault,
  SenderNotReadyError: classification.brokerFault,
  SendOperationFailedError: classification.notAccepted,
  OperationTimeoutError: classification.timeout,
  InvalidOperationError: classification.refused,
  ArgumentError: classification.refused,
  ArgumentOutOfRangeError: classification.refused,
  PreconditionFailedError: classification.refused,
  DecodeError: classification.refused,
  IllegalStateError: classification.refused,
  InvalidFieldError: classification.refused,
  NotImplementedError: classification.refused,
};

/** By the AMQP condition of a detach, which the SDK does not hand to whoever waits for a send. */
const byCondition: Readonly<Record<string, Classification>> = {
  'com.microsoft:server-busy': classification.serverBusy,
  'amqp:resource-limit-exceeded': classification.quotaExceeded,
  'amqp:link:message-size-exceeded': classification.messageSize,
  'amqp:unauthorized-access': classification.unauthorized,
  'com.microsoft:auth-failed': classification.unauthorized,
  'com.microsoft:entity-disabled': classification.entityDisabled,
};

const credentialErrors = new Set([
  'CredentialUnavailableError',
  'AuthenticationError',
  'AuthenticationRequiredError',
  'AggregateAuthenticationError',
]);
const systemCode = /^E[A-Z]{2,}(_[A-Z]+)*$/;

/** The SDK gives these no code. */
const byText: readonly (readonly [RegExp, Classification])[] = [
  [
    /^Length of '(messageId|sessionId|partitionKey)'|^The fields 'sessionId' and 'partitionKey'/,
    classification.tooLong,
  ],
  [/^An error occurred while executing JSON\.stringify/, classification.notEncodable],
  [
    /AMQP connection is closed|has been closed and can no longer be used|is reopening/i,
    classification.connectionClosed,
  ],
  [/has either been deleted or already settled/, classification.lockLost],
  [/was closed|Link has been permanently closed/i, classification.connectionClosed],
];

/** What an error of the SDK or of the socket means for the message it concerns: by code, and by text where there is none. */
export function classify(thrown: unknown): Classification {
  const error = rootOf(thrown);
  if (error instanceof ServicebusError) return error.classification;
  if (!(error instanceof Error)) return byCondition[conditionOf(error) ?? ''] ?? classification.unknown;
  if (credentialErrors.has(error.name)) return classification.noToken;
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') {
    if (Object.hasOwn(byCode, code)) return byCode[code] as Classification;
    if (isTlsErrorCode(code)) return classification.tls;
    if (systemCode.test(code)) return classification.unreachable;
  }
  const found = byText.find(([pattern]) => pattern.test(error.message))?.[1] ?? byFirstWordOf(error);
  if (found !== undefined) return found;
  if (error.name === 'AbortError') return classification.aborted;
  if (error instanceof TypeError) return classification.notEncodable;
  return byCondition[conditionOf(error) ?? ''] ?? classification.unknown;
}

/**
 * The error that says most. After several attempts the SDK throws a bare `AggregateError`; the last of it counts, and a
 * timeout only when there is nothing else.
 */
export function rootOf(error: unknown): unknown {
  if (!(error instanceof AggregateError) || error.errors.length === 0) return error;
  const roots = error.errors.map((each) => rootOf(each));
  return roots.findLast((each) => (each as { code?: unknown } | null)?.code !== 'ServiceTimeout') ?? roots.at(-1);
}

function byFirstWordOf(error: Error): Classification | undefined {
  // System errors go through two translations, keep their fields and lose their code.
  const { syscall, errno } = error as { syscall?: unknown; errno?: unknown };
  const word = /^(\w+)(?=:)/.exec(error.message)?.[1] ?? '';
  if (isTlsErrorCode(word)) return classification.tls;
  if (syscall !== undefined || errno !== undefined || systemCode.test(word)) return classification.unreachable;
  if (Object.hasOwn(byFirstWord, word)) return byFirstWord[word];
  return Object.hasOwn(byFirstWord, error.name) ? byFirstWord[error.name] : undefined;
}

function conditionOf(error: unknown): string | undefined {
  const { condition } = (error ?? {}) as { condition?: unknown };
  return typeof condition === 'string' ? condition : undefined;
}

/** What the broker asks to wait when it throttles: `… Please wait 2 seconds and try again.` */
export function askedToWaitMs(error: unknown): number | undefined {
  const seconds = /wait (\d{1,4}) seconds?/i.exec(textOf(error))?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

/** The text of any error, AMQP conditions included, without the SDK's tracking suffix of several lines. */
export function textOf(thrown: unknown): string {
  const error = rootOf(thrown);
  const { message, description, condition } = (error ?? {}) as Record<string, unknown>;
  const text = [message, description, condition].find((each) => typeof each === 'string' && each !== '');
  return typeof text === 'string' ? text : String(error);
}

/** True when nothing but waiting for a session ended: there is no session to be had at the moment. */
export function isNoSession(error: unknown): boolean {
  const { code } = (rootOf(error) ?? {}) as { code?: unknown };
  return code === 'ServiceTimeout' || code === 'SessionCannotBeLocked' || classify(error) === classification.timeout;
}
