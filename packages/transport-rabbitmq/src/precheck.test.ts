import { MessageFailureReason, type OutgoingMessage } from '@whizbang/core/transport';
import { describe, expect, test } from 'vitest';
import { RabbitmqError } from './errors.js';
import { checkMessage } from './precheck.js';

const { MessageBodyTooLarge, SerializationError, ValidationError } = MessageFailureReason;

function message(parts: Partial<OutgoingMessage> = {}): OutgoingMessage {
  return {
    messageId: 'id-1',
    destination: 'orders',
    messageType: 'orders.placed',
    streamId: null,
    attributes: { id: 'id-1', time: '2023-11-14T22:13:20Z', datacontenttype: 'application/json' },
    headers: { h: 'v' },
    body: Buffer.from('{}'),
    ...parts,
  };
}

test('a message that can be sent gives its AMQP properties', () => {
  expect(checkMessage(message(), 100, 131_072)).toEqual({
    persistent: true,
    contentType: 'application/json',
    messageId: 'id-1',
    type: 'orders.placed',
    timestamp: 1_700_000_000,
    headers: { cloudEvents_id: 'id-1', cloudEvents_time: '2023-11-14T22:13:20Z', h: 'v' },
  });
});

describe('refused before sending, and not to be tried again', () => {
  const long = 'x'.repeat(256);
  test.each([
    ['a body above the limit', message({ body: Buffer.alloc(101) }), MessageBodyTooLarge, /101 bytes.*100/],
    ['a body that is no Buffer', message({ body: 'text' as unknown as Buffer }), SerializationError, /Buffer/],
    ['a long type, in bytes', message({ messageType: 'ü'.repeat(128) }), ValidationError, /type has 256 bytes/],
    ['a long id', message({ messageId: long }), ValidationError, /message id has 256/],
    ['a long content type', message({ attributes: { datacontenttype: long } }), ValidationError, /content type/],
    ['a long header name', message({ headers: { [long]: 'v' } }), ValidationError, /header name has 256/],
    ['half a surrogate pair', message({ headers: { h: 'a\uD800' } }), ValidationError, /"h" holds half a surrogate/],
    [
      'a header that is no string',
      message({ headers: { h: 1 as unknown as string } }),
      ValidationError,
      /not a string/,
    ],
    ['headers above 64 KiB', message({ headers: { h: 'v'.repeat(65_536) } }), MessageBodyTooLarge, /headers have/],
  ])('%s', (_, sent, reason, text) => {
    const refusal = checkMessage(sent, 100, 131_072);
    expect(refusal).toBeInstanceOf(RabbitmqError);
    expect(refusal).toMatchObject({ reason, retryable: false });
    expect((refusal as RabbitmqError).message).toMatch(text);
  });

  test('headers that do not fit into a small frame', () => {
    const sent = message({ headers: { h: 'v'.repeat(7500) } });
    expect(checkMessage(sent, 100, 8192)).toMatchObject({ reason: MessageBodyTooLarge });
    expect(checkMessage(sent, 100, 131_072)).not.toBeInstanceOf(RabbitmqError);
  });
});

test('the limits themselves are allowed', () => {
  const atTheLimit = message({
    body: Buffer.alloc(100),
    messageType: 't'.repeat(255),
    headers: { ['n'.repeat(255)]: '🙂' },
  });
  expect(checkMessage(atTheLimit, 100, 131_072)).not.toBeInstanceOf(RabbitmqError);
});
