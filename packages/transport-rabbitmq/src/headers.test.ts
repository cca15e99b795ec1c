import type { OutgoingMessage } from '@whizbang/core/transport';
import type { ConsumeMessage } from 'amqplib';
import { describe, expect, test } from 'vitest';
import { decodeDelivery, encodeHeaders, timestampOf } from './headers.js';

function message(parts: Partial<OutgoingMessage>): OutgoingMessage {
  return {
    messageId: 'id-1',
    destination: 'orders',
    messageType: 'orders.placed',
    streamId: null,
    attributes: { id: 'id-1', type: 'orders.placed', source: '/orders', specversion: '1.0' },
    headers: {},
    body: Buffer.from('{}'),
    ...parts,
  };
}

function delivery(properties: Record<string, unknown>, fields: Partial<ConsumeMessage['fields']> = {}): ConsumeMessage {
  return {
    content: Buffer.from('{}'),
    fields: {
      consumerTag: 'c',
      deliveryTag: 1,
      redelivered: false,
      exchange: 'orders',
      routingKey: 'orders.placed',
      ...fields,
    },
    properties: properties as unknown as ConsumeMessage['properties'],
  };
}

describe('round trip', () => {
  const awkward = [
    'cloudEvents_id',
    'cloudEvents:type',
    'x-whizbang-header-cloudEvents_id',
    'x-whizbang-header-',
    'CC',
    'BCC',
    'x-death',
    'x-first-death-queue',
    'x-delivery-count',
    '__proto__',
    'constructor',
    'id',
    '',
    'ключ 🗝',
    'traceparent',
  ];

  test('attributes and headers come back under their names, whatever these are', () => {
    const headers = Object.fromEntries(awkward.map((name) => [name, `value of ${name}`]));
    const sent = message({ headers });
    const encoded = encodeHeaders(sent);
    const received = decodeDelivery(delivery({ headers: encoded, contentType: 'application/json' }));
    expect(received.headers).toEqual(headers);
    expect(Object.keys(received.headers).toSorted()).toEqual(awkward.toSorted());
    expect(received.attributes).toEqual({ ...sent.attributes, datacontenttype: 'application/json' });
  });

  test('nothing that a broker acts on or overwrites is sent as a header', () => {
    const headers = Object.fromEntries(awkward.map((name) => [name, 'x']));
    const names = Object.keys(encodeHeaders(message({ attributes: {}, headers })));
    expect(names).toContain('traceparent');
    expect(
      names.filter((name) => /^(CC|BCC|x-death|x-first-death.*|x-delivery-count|cloudEvents.*)$/.test(name)),
    ).toEqual([]);
  });

  test('the content type travels as a property only', () => {
    const encoded = encodeHeaders(message({ attributes: { datacontenttype: 'application/json' } }));
    expect(Object.keys(encoded)).toEqual([]);
  });
});

describe('deliveries of foreign senders', () => {
  test('what is not an attribute comes from the properties', () => {
    const properties = { messageId: 'm', type: 't', timestamp: 1_700_000_000, contentType: 'text/plain', headers: {} };
    expect(decodeDelivery(delivery(properties)).attributes).toEqual({
      id: 'm',
      type: 't',
      time: '2023-11-14T22:13:20.000Z',
      datacontenttype: 'text/plain',
    });
  });

  test('without any of it, the routing key is the type', () => {
    expect(decodeDelivery(delivery({}))).toMatchObject({ attributes: { type: 'orders.placed' }, headers: {} });
  });

  test('attributes win over properties', () => {
    const headers = { 'cloudEvents:id': 'a', cloudEvents_type: 'b' };
    const { attributes } = decodeDelivery(delivery({ headers, messageId: 'x', type: 'y' }));
    expect(attributes).toEqual({ id: 'a', type: 'b' });
  });

  test('milliseconds are taken for what they are, and what is no time is left out', () => {
    const time = (timestamp: unknown): string | undefined => decodeDelivery(delivery({ timestamp })).attributes['time'];
    expect(time(1_700_000_000_000)).toBe('2023-11-14T22:13:20.000Z');
    expect(time(1e300)).toBeUndefined();
    expect(time(Number.NaN)).toBeUndefined();
  });

  test.each([
    ['number', 12.5, '12.5'],
    ['boolean', false, 'false'],
    ['null', null, ''],
    ['text in bytes', Buffer.from('grün'), 'grün'],
    ['bytes', Buffer.from([0xff, 0xfe]), '//4='],
    ['time', { '!': 'timestamp', value: 1_700_000_000 }, '2023-11-14T22:13:20.000Z'],
    ['decimal', { '!': 'decimal', value: { places: 2, digits: 1234 } }, '12.34'],
    ['table', { a: 1, b: { c: [true, null] } }, '{"a":1,"b":{"c":[true,""]}}'],
    ['list', [{ count: 1, queue: 'q' }], '[{"count":1,"queue":"q"}]'],
    ['bigint', 10n, '10'],
  ])('a header that is a %s becomes a string', (_, value, expected) => {
    expect(decodeDelivery(delivery({ headers: { h: value, cloudEvents_ext: value } }))).toMatchObject({
      headers: { h: expected },
      attributes: value === null ? {} : { ext: expected },
    });
  });

  test("the broker's own counters are left out, and the exchange and the flag are passed on", () => {
    const received = delivery({ headers: { 'x-delivery-count': 3 } }, { redelivered: true, exchange: 'e' });
    expect(decodeDelivery(received)).toMatchObject({ headers: {}, redelivered: true, destination: 'e' });
    expect(Object.keys(decodeDelivery(received).headers)).toEqual([]);
  });
});

test('the timestamp is the time attribute in whole seconds, where that is a time', () => {
  const at = (time: string): number | undefined => timestampOf(message({ attributes: { time } }));
  expect(at('2023-11-14T22:13:20.999Z')).toBe(1_700_000_000);
  expect(at('soon')).toBeUndefined();
  expect(at('1969-01-01T00:00:00Z')).toBeUndefined();
  expect(timestampOf(message({}))).toBeUndefined();
});
