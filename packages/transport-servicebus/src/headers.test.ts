import type { OutgoingMessage } from '@whizbang/core/transport';
import { describe, expect, test } from 'vitest';
import { decodeProperties, encodeProperties } from './headers.js';

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

describe('round trip', () => {
  const awkward = [
    'cloudEvents_id',
    'cloudEvents:type',
    'x-whizbang-header-cloudEvents_id',
    'x-whizbang-header-',
    'Diagnostic-Id',
    'DeadLetterReason',
    'DeadLetterErrorDescription',
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
    const applicationProperties = encodeProperties(sent);
    const received = decodeProperties({ applicationProperties, contentType: 'application/json' });
    expect(received.headers).toEqual(headers);
    expect(Object.keys(received.headers).toSorted()).toEqual(awkward.toSorted());
    expect(received.attributes).toEqual({ ...sent.attributes, datacontenttype: 'application/json' });
  });

  test('nothing that the SDK or the broker writes itself is sent as a header', () => {
    const headers = Object.fromEntries(awkward.map((name) => [name, 'x']));
    const names = Object.keys(encodeProperties(message({ attributes: {}, headers })));
    expect(names).toContain('traceparent');
    expect(names.filter((name) => /^(Diagnostic-Id|DeadLetter.*|cloudEvents.*|)$/.test(name))).toEqual([]);
  });

  test('the content type travels as a property only', () => {
    expect(encodeProperties(message({ attributes: { datacontenttype: 'application/json' } }))).toEqual({});
  });
});

describe('deliveries of foreign senders', () => {
  test('what is not an attribute comes from the properties', () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const received = decodeProperties({
      messageId: 'm',
      subject: 't',
      contentType: 'text/plain',
      enqueuedTimeUtc: new Date(1_700_000_000_000),
      applicationProperties: { 'Diagnostic-Id': traceparent, h: 'v' },
    });
    expect(received).toEqual({
      attributes: { id: 'm', type: 't', time: '2023-11-14T22:13:20.000Z', datacontenttype: 'text/plain', traceparent },
      headers: { h: 'v' },
    });
  });

  test('attributes win over properties', () => {
    const applicationProperties = { 'cloudEvents:id': 'a', cloudEvents_type: 'b', cloudEvents_specversion: '1.0' };
    const { attributes } = decodeProperties({
      applicationProperties,
      messageId: 'x',
      subject: 'y',
      enqueuedTimeUtc: new Date(),
    });
    expect(attributes).toEqual({ id: 'a', type: 'b', specversion: '1.0' });
  });

  test('without any of it there is nothing', () => {
    expect(decodeProperties({})).toEqual({ attributes: {}, headers: {} });
  });

  test.each([
    ['number', 12.5, '12.5'],
    ['boolean', false, 'false'],
    ['null', null, ''],
    ['text in bytes', Buffer.from('grün'), 'grün'],
    ['bytes', Buffer.from([0xff, 0xfe]), '//4='],
    ['time', new Date(1_700_000_000_000), '2023-11-14T22:13:20.000Z'],
    ['bigint', 10n, '10'],
  ])('a property that is a %s becomes a string', (_, value, expected) => {
    const applicationProperties = { h: value, cloudEvents_ext: value } as never;
    expect(decodeProperties({ applicationProperties })).toEqual({
      headers: { h: expected },
      attributes: value === null ? {} : { ext: expected },
    });
  });
});
