import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import { type ConditionId, classification } from './classification.js';
import { KafkaError, type Stage, classify, conditionOf, messageOf, protocolCode } from './errors.js';

// The client's own errors, made as it makes them.
const { createErrorFromCode } = createRequire(import.meta.url)('kafkajs/src/protocol/error') as {
  createErrorFromCode: (code: number) => Error;
};
const {
  KafkaJSAggregateError,
  KafkaJSBrokerNotFound,
  KafkaJSConnectionClosedError,
  KafkaJSConnectionError,
  KafkaJSGroupCoordinatorNotFound,
  KafkaJSLockTimeout,
  KafkaJSMetadataNotLoaded,
  KafkaJSNonRetriableError,
  KafkaJSNotImplemented,
  KafkaJSNumberOfRetriesExceeded,
  KafkaJSRequestTimeoutError,
  KafkaJSSASLAuthenticationError,
  KafkaJSServerDoesNotSupportApiKey,
} = createRequire(import.meta.url)('kafkajs/src/errors') as Record<string, new (...args: unknown[]) => Error>;
type Case = readonly [what: string, error: unknown, stage?: Stage];

const made = (Kind: (new (...args: unknown[]) => Error) | undefined, ...args: unknown[]): Error => {
  if (Kind === undefined) throw new Error('kafkajs has no such error');
  return new Kind(...args);
};
const codes = (...numbers: number[]): Case[] => numbers.map((code) => [`code ${code}`, createErrorFromCode(code)]);
const connectionError = (text: string, code?: string): Error =>
  made(KafkaJSConnectionError, text, { broker: 'b:1', code });

const cases: Record<ConditionId, readonly Case[]> = {
  unreachable: [
    ...['ECONNREFUSED', 'ENOTFOUND', 'ETIMEDOUT', 'ECONNRESET', 'EHOSTUNREACH'].map((code): Case => [
      code,
      connectionError(`Connection error: ${code}`, code),
    ]),
    ['a connection that nobody answers', connectionError('Connection timeout')],
    ['a connection found closed before anything was written', connectionError('Not connected'), 'inFlight'],
  ],
  tlsRefused: [
    ...['CERT_HAS_EXPIRED', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'EPROTO'].map(
      (code): Case => [code, connectionError('Connection error: tls', code)],
    ),
    ['a text of the TLS library', connectionError('Connection error: self-signed certificate in certificate chain')],
  ],
  credentialsRefused: [
    ['the error of the login', made(KafkaJSSASLAuthenticationError, 'SASL PLAIN authentication failed')],
    ...codes(58, 61, 66, 93),
  ],
  saslMechanismRefused: [
    ['a connection closed while logging in', connectionError('Connection closed by the server')],
    ...codes(33, 34),
  ],
  notAuthorized: codes(29, 30, 31, 53, 54),
  connectionLostInFlight: [
    ['closed', made(KafkaJSConnectionClosedError, 'Closed connection', { host: 'b', port: 1 }), 'inFlight'],
    ['reset', connectionError('Connection error: read ECONNRESET', 'ECONNRESET'), 'inFlight'],
  ],
  unansweredInTime: [['a request', made(KafkaJSRequestTimeoutError, 'Request Produce timed out')]],
  partitionNotCovered: [['an answer', new KafkaError('of nothing', 'partitionNotCovered')]],
  messageTooLarge: codes(10, 18),
  throttled: codes(89),
  noLeader: codes(5, 6, 8, 9, 13, 41, 72, 74, 75, 77, 80, 83),
  notEnoughReplicas: codes(19),
  storageError: codes(56),
  noCoordinator: codes(14, 15, 16),
  unknownTopic: codes(3),
  metadataNotLoaded: [
    ...[KafkaJSMetadataNotLoaded, KafkaJSBrokerNotFound, KafkaJSLockTimeout, KafkaJSGroupCoordinatorNotFound].map(
      (Kind): Case => [Kind?.name ?? '', made(Kind, 'not there')],
    ),
  ],
  operationInProgress: codes(51, 60),
  answeredTooLate: codes(7, 20),
  corruptMessage: codes(2),
  producerState: codes(45, 47, 48, 49, 59, 90, 120),
  membershipLost: codes(22, 25, 27, 82),
  offsetOutOfRange: codes(1),
  invalidRecord: codes(87),
  clockRefused: codes(32),
  invalidRequest: codes(12, 17, 21, 23, 24, 26, 28, 37, 38, 39, 40, 42, 43, 76),
  policyViolation: codes(44),
  incompatibleBroker: [
    ...codes(35),
    [
      'a request the broker does not know',
      made(KafkaJSServerDoesNotSupportApiKey, 'Fetch', { apiKey: 1, apiName: 'Fetch' }),
    ],
  ],
  unsupportedCompression: [['no codec', made(KafkaJSNotImplemented, 'Snappy compression not implemented')]],
  unencodable: [['a value of another type', new TypeError('The "value" argument must be …')]],
  invalidMessage: [['a header', new KafkaError('half a surrogate pair', 'invalidMessage')]],
  unknown: [...codes(-1, 999), ['no error at all', 'nothing'], ['an error of nobody’s', new Error('?')]],
};

const all = Object.entries(cases).flatMap(([id, errors]) =>
  errors.map(([what, error, stage]) => ({ id: id as ConditionId, what, error, stage })),
);

test.each(all)('$id: $what', ({ id, error, stage }) => {
  expect(conditionOf(error, stage)).toBe(id);
  expect(classify(error, stage)).toBe(classification[id]);
});

test('what kafkajs wraps is judged by its innermost error', () => {
  const root = createErrorFromCode(10);
  const wrapped = made(KafkaJSNumberOfRetriesExceeded, made(KafkaJSNonRetriableError, root, { cause: root }), {});
  expect(conditionOf(wrapped)).toBe('messageTooLarge');
  expect(conditionOf(made(KafkaJSAggregateError, 'Topic creation errors', [root]))).toBe('messageTooLarge');
});

test('a code that kafkajs does not know yet is read from its text', () => {
  expect(protocolCode(createErrorFromCode(89))).toBe(89);
  expect(protocolCode(createErrorFromCode(3))).toBe(3);
  expect(protocolCode(new Error('Unknown error code 89'))).toBeUndefined();
});

test('a sentence for people names the code', () => {
  expect(messageOf(createErrorFromCode(6))).toMatch(/^NOT_LEADER_FOR_PARTITION: /);
  expect(messageOf('text')).toBe('text');
});
