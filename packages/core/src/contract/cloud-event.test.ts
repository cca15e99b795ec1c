import { describe, expect, test } from 'vitest';
import { attributesOf, readDelivery } from './cloud-event.js';
import { isUuid, streamIdOf } from './stream-id.js';
import type { Delivery } from './transport.js';

const messageId = '0190aaaa-0000-7000-8000-000000000001';

const delivery = (
  attributes: Record<string, string>,
  body: string | Buffer = '{}',
  more: Partial<Delivery> = {},
): Delivery => ({
  attributes,
  headers: {},
  body: Buffer.from(body),
  destination: 'orders',
  redelivered: false,
  ...more,
});

test('what one service writes another reads', () => {
  const metadata = {
    streamKey: 'order 1',
    headers: { tenant: 'x' },
    correlationId: 'c',
    causationId: 'd',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: 'a=b',
    time: '2026-01-01T00:00:00.000Z',
  };
  const streamId = streamIdOf('order 1');
  const attributes = attributesOf({ messageId, messageType: 'orders.placed', streamId }, metadata, 'orders');
  expect(attributes).toMatchObject({ specversion: '1.0', id: messageId, source: '/orders', partitionkey: 'order 1' });
  const body = '{"text":"a\\u0000b"}';
  expect(readDelivery(delivery(attributes, body, { headers: { tenant: 'x' } }))).toEqual({
    messageId,
    messageType: 'orders.placed',
    destination: 'orders',
    streamId,
    eventData: body,
    metadata: { ...metadata, source: '/orders', originalId: undefined },
  });
});

test('a row that plain SQL stored has attributes as far as it has them', () => {
  const attributes = attributesOf({ messageId, messageType: 'a', streamId: null }, {}, 'orders');
  expect(Object.keys(attributes).toSorted()).toEqual(['datacontenttype', 'id', 'source', 'specversion', 'type']);
});

test('a stream without a key travels under its id', () => {
  const streamId = streamIdOf('a');
  expect(attributesOf({ messageId, messageType: 'a', streamId }, {}, 'orders')['partitionkey']).toBe(streamId);
  expect(readDelivery(delivery({ id: messageId, type: 'a', partitionkey: streamId })).streamId).toBe(streamId);
});

describe('an event of a foreign sender', () => {
  test('may be nested deeper than what this library publishes', () => {
    const body = '['.repeat(5_000) + ']'.repeat(5_000);
    expect(readDelivery(delivery({ id: '1', type: 'a' }, body)).eventData).toBe(body);
  });

  test('needs no more than id, type and JSON', () => {
    const read = readDelivery(delivery({ id: messageId, type: 'a' }, '\ufeff[1]'));
    expect(read).toMatchObject({ messageId, messageType: 'a', streamId: null, eventData: '[1]' });
  });

  test('gets a UUID that follows from its source and id', () => {
    const idOf = (id: string, source: string) => readDelivery(delivery({ id, type: 'a', source })).messageId;
    expect(isUuid(idOf('1', '/there'))).toBe(true);
    expect(idOf('1', '/there')).toBe(idOf('1', '/there'));
    expect(idOf('1', '/there')).not.toBe(idOf('1', '/elsewhere'));
    expect(idOf(messageId.toUpperCase(), '/there')).toBe(messageId);
  });

  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'application/cloudevents+json',
    'Application/JSON',
  ])('may say that it is %s', (datacontenttype) => {
    expect(readDelivery(delivery({ id: '1', type: 'a', datacontenttype })).eventData).toBe('{}');
  });

  test.each<readonly [string, Delivery, RegExp]>([
    ['no id', delivery({ type: 'a' }), /id is missing/],
    ['no type', delivery({ id: '1', type: '' }), /type is missing/],
    ['another content type', delivery({ id: '1', type: 'a', datacontenttype: 'text/plain' }), /text\/plain, not JSON/],
    ['no JSON', delivery({ id: '1', type: 'a' }, '{'), /JSON/],
    ['an empty body', delivery({ id: '1', type: 'a' }, ''), /JSON/],
    ['bytes that are no UTF-8', delivery({ id: '1', type: 'a' }, Buffer.from([0x22, 0xff, 0x22])), /not valid/],
    [
      'a nest that PostgreSQL gives up on',
      delivery({ id: '1', type: 'a' }, '['.repeat(9_000) + ']'.repeat(9_000)),
      /nested more/,
    ],
    ['a type that no column holds', delivery({ id: '1', type: 'a'.repeat(501) }), /more than 500 characters/],
    ['a NUL character in the type', delivery({ id: '1', type: 'a\0' }), /NUL/],
    [
      'the all-zero UUID as key',
      delivery({ id: '1', type: 'a', partitionkey: '00000000-0000-0000-0000-000000000000' }),
      /EmptyStreamId/,
    ],
  ])('is not read when it has %s', (_, foreign, sentence) => {
    expect(() => readDelivery(foreign)).toThrow(sentence);
  });
});
