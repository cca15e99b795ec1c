import { expect, test } from 'vitest';
import { decodeDelivery, encodeHeaders, messageTypeOf } from './headers.js';
import type { FetchedRecord } from './kafka-broker.js';

const record = (parts: Partial<FetchedRecord>): FetchedRecord => ({
  offset: '0',
  timestamp: '0',
  key: null,
  value: Buffer.from('{}'),
  headers: {},
  isControlRecord: false,
  ...parts,
});
const decoded = (parts: Partial<FetchedRecord>) => decodeDelivery('orders', record(parts), false);
const outgoing = (attributes: Record<string, string>, headers: Record<string, string> = {}) => ({
  messageId: '1',
  destination: 'orders',
  messageType: 'a',
  streamId: null,
  attributes,
  headers,
  body: Buffer.from('{}'),
});

test('attributes are headers with the prefix of the CloudEvents binding, the content type without', () => {
  expect(encodeHeaders(outgoing({ id: '1', type: 'a', datacontenttype: 'application/json' }))).toEqual([
    ['ce_id', '1'],
    ['ce_type', 'a'],
    ['content-type', 'application/json'],
  ]);
});

test.each(['ce_id', 'content-type', 'constructor', '__proto__', 'x-whizbang-header-x', 'plain', ''])(
  'the header "%s" of a user arrives under its name',
  (name) => {
    const headers = Object.fromEntries([[name, 'value']]);
    const wire = Object.fromEntries(
      encodeHeaders(outgoing({}, headers)).map(([wireName, value]) => [wireName, Buffer.from(value)]),
    );
    const delivery = decoded({ headers: wire });
    expect(Object.entries(delivery.headers)).toEqual([[name, 'value']]);
    expect(delivery.attributes).toEqual({});
  },
);

test('bytes that are no text come as base64, no value as none, and of several values the last', () => {
  const headers = {
    bytes: Buffer.of(0xff),
    none: null,
    several: [Buffer.from('a'), Buffer.from('b')],
    constructor: [Object, Buffer.from('c')],
  };
  expect(decoded({ headers }).headers).toEqual({ bytes: '/w==', none: '', several: 'b', constructor: 'c' });
});

test('the key of a foreign record is its partition key, unless it has one or is no text', () => {
  const key = Buffer.from('order-7');
  expect(decoded({ key }).attributes).toEqual({ partitionkey: 'order-7' });
  expect(decoded({ key, headers: { ce_partitionkey: Buffer.from('other') } }).attributes).toEqual({
    partitionkey: 'other',
  });
  expect(decoded({ key: Buffer.of(0xff) }).attributes).toEqual({});
});

test('a record without a value has an empty body', () => {
  expect(decoded({ value: null }).body).toEqual(Buffer.alloc(0));
});

test('the type is read without the rest', () => {
  expect(messageTypeOf(record({ headers: { ce_type: Buffer.from('a') } }))).toBe('a');
  expect(messageTypeOf(record({}))).toBeUndefined();
});
