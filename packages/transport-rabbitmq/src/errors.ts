import { type ClassifiedCondition, MessageFailureReason, isTlsErrorCode } from '@whizbang/core/transport';
import { byName, byReplyCode } from './classification.js';

/** A row of the classification, as far as a message needs it. */
export type Classification = Pick<ClassifiedCondition, 'reason' | 'retryable'>;

/** When an error came up: while connecting or between messages, or with a message sent and not yet confirmed. */
export type Stage = 'idle' | 'inFlight';

/** An error of the transport that already knows what it means for a message. */
export class RabbitmqError extends Error implements Classification {
  readonly reason: MessageFailureReason;
  readonly retryable: boolean;

  constructor(message: string, classification: Classification, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'RabbitmqError';
    this.reason = classification.reason;
    this.retryable = classification.retryable;
  }
}

const byText406: readonly (readonly [RegExp, Classification])[] = [
  [/larger than (configured )?max size/, byName.messageTooLargeForBroker],
  [/unknown delivery tag/, byName.unknownDeliveryTag],
  [/delivery acknowledgement on channel .* timed out/, byName.acknowledgementTimedOut],
];

/** Node's codes for an unreachable host: nothing was sent, whatever the stage. */
const unreachable = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT']);
const connectionLost = new Set(['ECONNRESET', 'EPIPE', 'ABORT_ERR']);

/** amqplib gives these no code: broker refusals during the handshake, and its own states. */
const byText: readonly (readonly [RegExp, Classification | 'connectionLost'])[] = [
  [/^SASL mechanism /, byName.mechanismRefused],
  [/^Expected ConnectionOpenOk; got <ConnectionClose/, byName.vhostRefused],
  [/^Socket closed abruptly|^connect ETIMEDOUT/, byName.noHandshake],
  [/^No channels left/, byName.noChannelLeft],
  [/^(Expected amqp: or amqps:|maxFrameSize must be)/, byName.wrongProtocol],
  [/^message nacked$/, byName.nacked],
  [/^content is not a buffer/, byName.notABuffer],
  [/^Field '.*' is the wrong type/, byName.wrongField],
  [/^Encoded field table/, byName.headersTooLarge],
  [/^(Heartbeat timeout|Unexpected close|channel closed$|Channel ended|Channel closed)/i, 'connectionLost'],
];

/** What an error of amqplib or of the socket means for the message it concerns: by code, and by text where there is none. */
export function classify(error: unknown, stage: Stage = 'idle'): Classification {
  if (error instanceof RabbitmqError) return error;
  // With a message in flight the outcome is unknown: it may have been stored.
  const lost = stage === 'inFlight' ? byName.lostInFlight : byName.lostIdle;
  if (!(error instanceof Error)) return byName.unknown;
  if (error.name === 'IllegalOperationError') return byName.channelClosed;
  const code = replyCode(error) ?? (error as { code?: unknown }).code;
  if (typeof code === 'number') return byCode(code, error.message);
  if (typeof code === 'string') {
    if (unreachable.has(code)) return byName.unreachable;
    if (connectionLost.has(code)) return lost;
    if (isTlsErrorCode(code)) return byName.tls;
  }
  const found = byText.find(([pattern]) => pattern.test(error.message))?.[1];
  if (found !== undefined) return found === 'connectionLost' ? lost : found;
  return byName.unknown;
}

/** The AMQP reply code of an error, also where amqplib gives it in the text only: `Handshake terminated by server: 403 …`. */
export function replyCode(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code } = error as { code?: unknown };
  if (typeof code === 'number') return code;
  const inText = /^Handshake terminated by server: (\d{3}) /.exec(error.message)?.[1];
  return inText === undefined ? undefined : Number(inText);
}

function byCode(code: number, text: string): Classification {
  if (code === 406) return byText406.find(([pattern]) => pattern.test(text))?.[1] ?? byName.preconditionFailed;
  if (code === 501 && text.includes('frame_too_large')) return byName.frameTooLarge;
  return Object.hasOwn(byReplyCode, code) ? byReplyCode[code as keyof typeof byReplyCode] : byName.unknown;
}

/** The broker's real size limit in bytes, when that is what it closed the channel for. */
export function sizeLimitOf(error: Error): number | undefined {
  const limit = /larger than (?:configured )?max size (\d+)/.exec(error.message)?.[1];
  return limit === undefined ? undefined : Number(limit);
}

/** One sentence for the log about why connecting failed, with what to look at. */
export function explainConnectFailure(error: unknown, address: { username: string; vhost: string }): string {
  const text = error instanceof Error ? error.message : String(error);
  if (replyCode(error) === 403) {
    return `the broker refused user "${address.username}": user name or password is wrong, or the user may not log in from this host`;
  }
  if (text.startsWith('Expected ConnectionOpenOk; got <ConnectionClose')) {
    return (
      `the broker refused vhost "${address.vhost}": it does not exist, or user "${address.username}" has no permission on it, ` +
      'or its connection limit is reached (the broker does not tell which)'
    );
  }
  if (classify(error).reason === MessageFailureReason.SecurityContextEstablishmentFailure) {
    return `no secure connection could be made: ${text}`;
  }
  return text;
}
