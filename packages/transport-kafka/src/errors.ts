import { type ClassifiedCondition, type MessageFailureReason, isTlsErrorCode } from '@whizbang/core/transport';
import { type ConditionId, classification } from './classification.js';

/** When an error came up: while connecting or between messages, or with a message sent and not yet answered. */
export type Stage = 'idle' | 'inFlight';

/** An error of the transport that already knows what it means for a message. */
export class KafkaError extends Error {
  readonly condition: ConditionId;
  readonly reason: MessageFailureReason;
  readonly retryable: boolean;

  constructor(message: string, condition: ConditionId, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'KafkaError';
    this.condition = condition;
    this.reason = classification[condition].reason;
    this.retryable = classification[condition].retryable;
  }
}

const idsByCode: readonly (readonly [ConditionId, readonly number[]])[] = [
  ['offsetOutOfRange', [1]],
  ['corruptMessage', [2]],
  ['unknownTopic', [3]],
  ['noLeader', [5, 6, 8, 9, 13, 41, 72, 74, 75, 77, 80, 83]],
  ['answeredTooLate', [7, 20]],
  ['messageTooLarge', [10, 18]],
  ['invalidRecord', [87]],
  ['clockRefused', [32]],
  ['invalidRequest', [12, 17, 21, 23, 24, 26, 28, 37, 38, 39, 40, 42, 43, 76]],
  ['noCoordinator', [14, 15, 16]],
  ['notEnoughReplicas', [19]],
  ['membershipLost', [22, 25, 27, 82]],
  ['notAuthorized', [29, 30, 31, 53, 54]],
  ['saslMechanismRefused', [33, 34]],
  ['incompatibleBroker', [35]],
  ['policyViolation', [44]],
  ['producerState', [45, 47, 48, 49, 59, 90, 120]],
  ['operationInProgress', [51, 60]],
  ['storageError', [56]],
  ['credentialsRefused', [58, 61, 62, 63, 64, 65, 66, 93]],
  ['throttled', [89]],
];
const byCode = new Map(idsByCode.flatMap(([id, codes]) => codes.map((code) => [code, id] as const)));

const byName: Readonly<Record<string, ConditionId>> = {
  KafkaJSSASLAuthenticationError: 'credentialsRefused',
  KafkaJSRequestTimeoutError: 'unansweredInTime',
  KafkaJSBrokerNotFound: 'metadataNotLoaded',
  KafkaJSNoBrokerAvailableError: 'metadataNotLoaded',
  KafkaJSLockTimeout: 'metadataNotLoaded',
  KafkaJSMetadataNotLoaded: 'metadataNotLoaded',
  KafkaJSTopicMetadataNotLoaded: 'metadataNotLoaded',
  KafkaJSGroupCoordinatorNotFound: 'metadataNotLoaded',
  KafkaJSServerDoesNotSupportApiKey: 'incompatibleBroker',
  KafkaJSNotImplemented: 'unsupportedCompression',
  TypeError: 'unencodable',
};

// kafkajs gives the code of a TLS error, but not always: some come as a text of the TLS library.
const tlsText = /certificate|SSL routines|wrong version number/i;

/** What an error of kafkajs or of the socket means for the message it concerns: by code, and by text where there is none. */
export function classify(error: unknown, stage: Stage = 'idle'): ClassifiedCondition {
  return classification[conditionOf(error, stage)];
}

export function conditionOf(error: unknown, stage: Stage = 'idle'): ConditionId {
  const root = rootCause(error);
  if (root instanceof KafkaError) return root.condition;
  if (!(root instanceof Error)) return 'unknown';
  const code = protocolCode(root);
  if (code !== undefined) return byCode.get(code) ?? 'unknown';
  const known = byName[root.name];
  if (known !== undefined) return known;
  if (root.name.startsWith('KafkaJSConnection') || (root as NodeJS.ErrnoException).code !== undefined) {
    return connectionCondition(root, stage);
  }
  return 'unknown';
}

function connectionCondition(error: Error, stage: Stage): ConditionId {
  const { code } = error as NodeJS.ErrnoException;
  if (isTlsErrorCode(code ?? '') || tlsText.test(error.message)) return 'tlsRefused';
  if (error.message === 'Connection closed by the server') return 'saslMechanismRefused';
  // kafkajs found the connection closed before it wrote anything.
  if (error.message === 'Not connected') return 'unreachable';
  return stage === 'inFlight' ? 'connectionLostInFlight' : 'unreachable';
}

/** kafkajs wraps what went wrong; only the innermost error tells its code. */
export function rootCause(error: unknown): unknown {
  let root = error;
  for (let depth = 0; depth < 10; depth += 1) {
    if (root instanceof KafkaError) return root;
    const { cause, errors } = root as { cause?: unknown; errors?: unknown };
    const inner: unknown = Array.isArray(errors) && errors.length > 0 ? errors[0] : cause;
    if (!(inner instanceof Error)) return root;
    root = inner;
  }
  return root;
}

/** The number of a broker's answer, also of those newer than kafkajs, which has it in the text only. */
export function protocolCode(error: unknown): number | undefined {
  const root = rootCause(error);
  if (!(root instanceof Error)) return undefined;
  const { code, type } = root as { code?: unknown; type?: unknown };
  if (typeof type !== 'string' || typeof code !== 'number') return undefined;
  const inText = code === -99 ? /^Unknown error code (-?\d+)/.exec(root.message)?.[1] : undefined;
  return inText === undefined ? code : Number(inText);
}

export function messageOf(error: unknown): string {
  const root = rootCause(error);
  if (!(root instanceof Error)) return String(root);
  const { type } = root as { type?: unknown };
  return typeof type === 'string' ? `${type}: ${root.message}` : root.message;
}
