import { createServer } from 'node:net';
import { MessageFailureReason, failureReasonName } from '@whizbang/core/transport';
import { connect } from 'amqplib';
import { describe, expect, test } from 'vitest';
import { RabbitmqError, type Stage, classify, explainConnectFailure, replyCode, sizeLimitOf } from './errors.js';

function reported(message: string, code?: number | string, name = 'Error'): Error {
  return Object.assign(new Error(message), { name }, code === undefined ? {} : { code });
}

const closed = (code: number, text: string): Error =>
  reported(`Channel closed by server: ${code} (X) with message "${text}"`, code);

type Row = [what: string, error: unknown, reason: string, retryable: boolean, stage?: Stage];

const rows: Row[] = [
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'].map((code): Row => [
    code,
    reported(`connect ${code}`, code),
    'TransportNotReady',
    true,
  ]),
  ['timeout of amqplib', reported('connect ETIMEDOUT'), 'TransportNotReady', true],
  ['abrupt end', reported('Socket closed abruptly during opening handshake'), 'TransportNotReady', true],
  [
    'bad credentials',
    reported('Handshake terminated by server: 403 (ACCESS-REFUSED) with message "ACCESS_REFUSED - Login was refused"'),
    'SecurityContextEstablishmentFailure',
    false,
  ],
  [
    'no such mechanism',
    reported('SASL mechanism PLAIN is not provided by the server'),
    'SecurityContextEstablishmentFailure',
    false,
  ],
  ...['ERR_TLS_CERT_ALTNAME_INVALID', 'CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN']
    .concat(['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'ERR_SSL_WRONG_VERSION_NUMBER', 'EPROTO'])
    .map((code): Row => [code, reported('tls', code), 'SecurityContextEstablishmentFailure', false]),
  ['vhost refused', reported('Expected ConnectionOpenOk; got <ConnectionClose channel:0>'), 'TransportNotReady', true],
  ['wrong protocol', reported('Expected amqp: or amqps: as the protocol; got http:'), 'ValidationError', false],
  ['frame size option', reported('maxFrameSize must be 0 (no limit) or …'), 'ValidationError', false],
  ['channels used up', reported('No channels left to allocate'), 'TransportNotReady', true],
  ['320', reported('Connection closed: 320 (CONNECTION-FORCED)', 320), 'TransportNotReady', true],
  ['heartbeat, idle', reported('Heartbeat timeout'), 'TransportNotReady', true],
  ['heartbeat, in flight', reported('Heartbeat timeout'), 'TransportException', true, 'inFlight'],
  ['end, in flight', reported('Unexpected close'), 'TransportException', true, 'inFlight'],
  ['ECONNRESET, idle', reported('read ECONNRESET', 'ECONNRESET'), 'TransportNotReady', true],
  ['ECONNRESET, in flight', reported('read ECONNRESET', 'ECONNRESET'), 'TransportException', true, 'inFlight'],
  ['EPIPE, in flight', reported('write EPIPE', 'EPIPE'), 'TransportException', true, 'inFlight'],
  ['501 for size', closed(501, 'FRAME_ERROR - type 2, … frame_too_large'), 'MessageBodyTooLarge', false],
  ...[501, 502, 503, 504, 505, 541].map((code): Row => [`${code}`, closed(code, 'X'), 'TransportException', true]),
  ['506', closed(506, 'RESOURCE_ERROR'), 'Throttled', true],
  ['530', closed(530, 'NOT_ALLOWED'), 'ValidationError', false],
  ['540', closed(540, 'NOT_IMPLEMENTED'), 'ValidationError', false],
  ['402', closed(402, 'INVALID_PATH'), 'ValidationError', false],
  ['311', closed(311, 'CONTENT_TOO_LARGE'), 'MessageBodyTooLarge', false],
  [
    '406 for size',
    closed(406, 'PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000'),
    'MessageBodyTooLarge',
    false,
  ],
  [
    '406 for size, old text',
    closed(406, 'PRECONDITION_FAILED - message size 9 larger than max size 8'),
    'MessageBodyTooLarge',
    false,
  ],
  ['406 for arguments', closed(406, "PRECONDITION_FAILED - inequivalent arg 'durable'"), 'ValidationError', false],
  ['406 for expiration', closed(406, 'PRECONDITION_FAILED - invalid expiration'), 'ValidationError', false],
  ['406 for a tag', closed(406, 'PRECONDITION_FAILED - unknown delivery tag 1'), 'TransportException', true],
  [
    '406 for a slow consumer',
    closed(
      406,
      'PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms',
    ),
    'TransportException',
    true,
  ],
  ['403', closed(403, 'ACCESS_REFUSED'), 'SecurityContextEstablishmentFailure', false],
  ['404', closed(404, 'NOT_FOUND'), 'TransportNotReady', true],
  ['405', closed(405, 'RESOURCE_LOCKED'), 'TransportNotReady', true],
  ['312', closed(312, 'NO_ROUTE'), 'TransportNotReady', true],
  ['nack', reported('message nacked'), 'Throttled', true],
  ['channel gone, in flight', reported('channel closed'), 'TransportException', true, 'inFlight'],
  ['no answer any more', reported('Channel ended, no reply will be forthcoming'), 'TransportNotReady', true],
  ['closed before', reported('Channel closed', undefined, 'IllegalOperationError'), 'TransportNotReady', true],
  ['no buffer', reported('content is not a buffer', undefined, 'TypeError'), 'SerializationError', false],
  ['wrong field', reported("Field 'type' is the wrong type; must be a string"), 'ValidationError', false],
  [
    'header table',
    reported('Encoded field table (headers or arguments) exceeds the 65536 byte encoding buffer'),
    'MessageBodyTooLarge',
    false,
  ],
  ['not classified', reported('something else'), 'Unknown', true],
  ['an unknown reply code', closed(599, 'X'), 'Unknown', true],
  ['not an error', 'text', 'Unknown', true],
];

test.each<Row>(rows)('%s', (_, error, reason, retryable, stage) => {
  const classification = classify(error, stage);
  expect([failureReasonName(classification.reason), classification.retryable]).toEqual([reason, retryable]);
});

test('an error of the transport keeps what it says', () => {
  const error = new RabbitmqError('no', { reason: MessageFailureReason.Throttled, retryable: true });
  expect(classify(error, 'inFlight')).toMatchObject({ reason: MessageFailureReason.Throttled, retryable: true });
});

test('the reply code and the size limit are found in the text where there is no field', () => {
  expect(replyCode(rows.find(([what]) => what === 'bad credentials')?.[1])).toBe(403);
  expect(replyCode(reported('connect', 'ECONNREFUSED'))).toBeUndefined();
  expect(sizeLimitOf(closed(406, 'message size 1001 is larger than configured max size 1000'))).toBe(1000);
  expect(sizeLimitOf(closed(406, 'inequivalent arg'))).toBeUndefined();
});

describe('what the log says about a failed connection', () => {
  const address = { username: 'app', vhost: 'orders' };

  test('names the three causes of a refused vhost', () => {
    const error = reported('Expected ConnectionOpenOk; got <ConnectionClose channel:0>');
    expect(explainConnectFailure(error, address)).toMatch(/"orders".*does not exist.*"app" has no permission.*limit/);
  });

  test('names the user that was refused', () => {
    const error = reported('Handshake terminated by server: 403 (ACCESS-REFUSED) with message "…"');
    expect(explainConnectFailure(error, address)).toMatch(/refused user "app"/);
  });
});

test('real errors of amqplib: nobody listens, and a host that hangs up', async () => {
  const server = createServer((socket) => socket.resume().end());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const attempt = (): Promise<unknown> => connect({ hostname: '127.0.0.1', port }).catch((error: unknown) => error);
  const notReady = { reason: MessageFailureReason.TransportNotReady, retryable: true };
  expect(classify(await attempt())).toEqual(notReady);
  await new Promise((resolve) => server.close(resolve));
  expect(classify(await attempt())).toEqual(notReady);
});
