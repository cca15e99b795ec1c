import { createServer } from 'node:net';
import { MessageFailureReason } from '@whizbang/core/transport';
import { connect } from 'amqplib';
import { describe, expect, test } from 'vitest';
import { byReplyCode, classification } from './classification.js';
import { RabbitmqError, type Stage, classify, explainConnectFailure, replyCode, sizeLimitOf } from './errors.js';

function reported(message: string, code?: number | string, name = 'Error'): Error {
  return Object.assign(new Error(message), { name }, code === undefined ? {} : { code });
}

const closed = (code: number, text: string): Error =>
  reported(`Channel closed by server: ${code} (X) with message "${text}"`, code);

type Row = [id: keyof typeof classification, what: string, error: unknown, stage?: Stage];

const codes = (id: Row[0], ...names: string[]): Row[] => names.map((name) => [id, name, reported(name, name)]);

const rows: Row[] = [
  ...codes('unreachable', 'ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'),
  ['noHandshake', 'timeout of amqplib', reported('connect ETIMEDOUT')],
  ['noHandshake', 'abrupt end', reported('Socket closed abruptly during opening handshake')],
  [
    '403',
    'bad credentials',
    reported('Handshake terminated by server: 403 (ACCESS-REFUSED) with message "ACCESS_REFUSED - Login was refused"'),
  ],
  ['mechanismRefused', 'no such mechanism', reported('SASL mechanism PLAIN is not provided by the server')],
  ...codes('tls', 'ERR_TLS_CERT_ALTNAME_INVALID', 'CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT'),
  ...codes(
    'tls',
    'SELF_SIGNED_CERT_IN_CHAIN',
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    'ERR_SSL_WRONG_VERSION_NUMBER',
    'EPROTO',
  ),
  ['vhostRefused', 'vhost refused', reported('Expected ConnectionOpenOk; got <ConnectionClose channel:0>')],
  ['wrongProtocol', 'wrong protocol', reported('Expected amqp: or amqps: as the protocol; got http:')],
  ['wrongProtocol', 'frame size option', reported('maxFrameSize must be 0 (no limit) or …')],
  ['noChannelLeft', 'channels used up', reported('No channels left to allocate')],
  ['lostIdle', 'heartbeat', reported('Heartbeat timeout')],
  ['lostIdle', 'ECONNRESET', reported('read ECONNRESET', 'ECONNRESET')],
  ['lostIdle', 'no answer any more', reported('Channel ended, no reply will be forthcoming')],
  ['lostInFlight', 'heartbeat', reported('Heartbeat timeout'), 'inFlight'],
  ['lostInFlight', 'end', reported('Unexpected close'), 'inFlight'],
  ['lostInFlight', 'ECONNRESET', reported('read ECONNRESET', 'ECONNRESET'), 'inFlight'],
  ['lostInFlight', 'EPIPE', reported('write EPIPE', 'EPIPE'), 'inFlight'],
  ['lostInFlight', 'channel gone', reported('channel closed'), 'inFlight'],
  ...Object.keys(byReplyCode).map((code): Row => [code, 'reply code', closed(Number(code), 'X')]),
  ['frameTooLarge', '501 for size', closed(501, 'FRAME_ERROR - type 2, … frame_too_large')],
  [
    'messageTooLargeForBroker',
    '406',
    closed(406, 'PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000'),
  ],
  [
    'messageTooLargeForBroker',
    '406, old text',
    closed(406, 'PRECONDITION_FAILED - message size 9 larger than max size 8'),
  ],
  ['preconditionFailed', '406 for arguments', closed(406, "PRECONDITION_FAILED - inequivalent arg 'durable'")],
  ['preconditionFailed', '406 for expiration', closed(406, 'PRECONDITION_FAILED - invalid expiration')],
  ['unknownDeliveryTag', '406', closed(406, 'PRECONDITION_FAILED - unknown delivery tag 1')],
  [
    'acknowledgementTimedOut',
    '406',
    closed(
      406,
      'PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms',
    ),
  ],
  ['nacked', 'nack', reported('message nacked')],
  ['channelClosed', 'closed before', reported('Channel closed', undefined, 'IllegalOperationError')],
  ['notABuffer', 'no buffer', reported('content is not a buffer', undefined, 'TypeError')],
  ['wrongField', 'wrong field', reported("Field 'type' is the wrong type; must be a string")],
  [
    'headersTooLarge',
    'header table',
    reported('Encoded field table (headers or arguments) exceeds the 65536 byte encoding buffer'),
  ],
  ['unknown', 'not classified', reported('something else')],
  ['unknown', 'an unknown reply code', closed(599, 'X')],
  ['unknown', 'not an error', 'text'],
];

test.each<Row>(rows)('row %s: %s', (id, _, error, stage) => {
  expect(classify(error, stage)).toBe(classification[id]);
});

test('each row of the classification is told apart here, or is one that the transport itself finds', () => {
  const ownFindings = ['bodyTooLarge', 'blocked', 'confirmTimeout'];
  const tested = new Set([...rows.map(([id]) => id), ...ownFindings]);
  expect(Object.keys(classification).filter((id) => !tested.has(id))).toEqual([]);
});

test('an error of the transport keeps what it says', () => {
  const error = new RabbitmqError('no', { reason: MessageFailureReason.Throttled, retryable: true });
  expect(classify(error, 'inFlight')).toMatchObject({ reason: MessageFailureReason.Throttled, retryable: true });
});

test('the reply code and the size limit are found in the text where there is no field', () => {
  expect(replyCode(rows.find(([, what]) => what === 'bad credentials')?.[2])).toBe(403);
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
  expect(classify(await attempt())).toMatchObject(notReady);
  await new Promise((resolve) => server.close(resolve));
  expect(classify(await attempt())).toMatchObject(notReady);
});
