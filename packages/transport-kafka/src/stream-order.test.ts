import { PublishCall } from '@whizbang/core/transport';
import { expect, test } from 'vitest';
import type { PendingMessage } from './pending-message.js';
import { StreamOrder } from './stream-order.js';

const call = new PublishCall<PendingMessage>(99, new AbortController().signal, () => undefined);

function pending(lane: string, streamId: string | null = 'stream'): PendingMessage {
  const message = {
    messageId: '',
    destination: '',
    messageType: '',
    streamId,
    attributes: {},
    headers: {},
    body: Buffer.of(),
  };
  const record = { key: null, value: Buffer.of(), headers: {} };
  return { message, call, index: 0, lane, refusal: undefined, state: 'waiting', record, partitionKey: '', bytes: 0 };
}

test('one after the other to the same partition goes at once', () => {
  const order = new StreamOrder();
  expect([pending('a'), pending('a'), pending('a')].map((message) => order.enter(message))).toEqual([true, true, true]);
});

test('to another partition it waits until all before it are confirmed', () => {
  const order = new StreamOrder();
  const [first, second, third, fourth, back] = [pending('a'), pending('a'), pending('b'), pending('b'), pending('a')];
  expect([first, second, third, fourth, back].map((message) => order.enter(message))).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
  expect(order.confirmed(first)).toEqual([]);
  expect(order.confirmed(second)).toEqual([third, fourth]);
  expect(order.confirmed(third)).toEqual([]);
  expect(order.confirmed(fourth)).toEqual([back]);
});

test('what was not confirmed takes all behind it along, and the stream goes on afresh', () => {
  const order = new StreamOrder();
  const [first, second, third] = [pending('a'), pending('a'), pending('b')];
  for (const message of [first, second, third]) order.enter(message);
  order.confirmed(first);
  expect(order.cut(second)).toEqual([third]);
  expect(order.enter(pending('b'))).toBe(true);
});

test('messages without a stream wait for nobody', () => {
  const order = new StreamOrder();
  order.enter(pending('a'));
  expect(order.enter(pending('b', null))).toBe(true);
  expect(order.cut(pending('b', null))).toEqual([]);
});
