import { describe, expect, test } from 'vitest';
import type { ClassifiedCondition, OutgoingMessage } from '@whizbang/core/transport';
import { classification } from './classification.js';
import { ServicebusError } from './errors.js';
import { encodeMessage } from './outgoing.js';

function message(parts: Partial<OutgoingMessage> = {}): OutgoingMessage {
  return {
    messageId: 'id-1',
    destination: 'orders',
    messageType: 'orders.placed',
    streamId: null,
    attributes: { id: 'id-1', datacontenttype: 'application/json' },
    headers: { h: 'v' },
    body: Buffer.from('{}'),
    ...parts,
  };
}

test('a message that can be sent', () => {
  expect(encodeMessage(message(), 'stream-1', 100)).toEqual({
    body: Buffer.from('{}'),
    messageId: 'id-1',
    subject: 'orders.placed',
    contentType: 'application/json',
    sessionId: 'stream-1',
    applicationProperties: { cloudEvents_id: 'id-1', h: 'v' },
  });
  expect(encodeMessage(message(), undefined, undefined)).not.toHaveProperty('sessionId');
});

describe('refused before sending, and not to be tried again', () => {
  const { messageSize, notEncodable, refused, tooLong } = classification;
  const rows: [string, OutgoingMessage, ClassifiedCondition, RegExp][] = [
    ['a body above the limit', message({ body: Buffer.alloc(101) }), messageSize, /101 bytes.*100/],
    ['a body that is no Buffer', message({ body: 'text' as unknown as Buffer }), notEncodable, /Buffer/],
    ['a long id', message({ messageId: 'x'.repeat(129) }), tooLong, /message id has 129 characters/],
    ['no id', message({ messageId: '' }), tooLong, /message id has 0 characters/],
    ['a long destination', message({ destination: 'x'.repeat(261) }), tooLong, /1 to 260 characters.*has 261/],
    ['a destination with other characters', message({ destination: 'a?b' }), tooLong, /"a\?b" has characters/],
    ['a header of 33 KB', message({ headers: { h: 'x'.repeat(33_000) } }), messageSize, /"h" has 33001 bytes/],
    [
      'headers of 66 KB',
      message({ headers: { a: 'x'.repeat(30_000), b: 'ü'.repeat(15_000), c: 'x'.repeat(6_000) } }),
      messageSize,
      /have 660\d\d bytes, and the broker takes 65536/,
    ],
    ['half a character', message({ headers: { h: '\ud83d' } }), refused, /half a surrogate pair/],
    ['half a character in a name', message({ headers: { '\ud83d': 'h' } }), refused, /half a surrogate pair/],
    ['a header that is no string', message({ headers: { h: 1 as unknown as string } }), refused, /"h" is not a string/],
  ];
  test.each(rows)('%s', (_, outgoing, because, sentence) => {
    const error = encodeMessage(outgoing, 's', 100);
    expect(error).toBeInstanceOf(ServicebusError);
    const { reason, retryable } = (error as ServicebusError).classification;
    expect({ reason, retryable }).toEqual({ reason: because.reason, retryable: false });
    expect((error as ServicebusError).message).toMatch(sentence);
  });
});
