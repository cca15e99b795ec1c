import { PublishCall } from '@whizbang/core/transport';
import { expect, test } from 'vitest';
import type { PendingMessage } from './pending-message.js';
import { StreamOrder } from './stream-order.js';

const call = new PublishCall<PendingMessage>(0, new AbortController().signal, () => undefined);

function pending(streamId: string | null): PendingMessage {
  const message = {
    messageId: 'm',
    destination: 'd',
    messageType: 't',
    streamId,
    attributes: {},
    headers: {},
    body: Buffer.alloc(0),
  };
  return { message, call, index: 0, state: 'waiting', maybeStored: false, sentAt: 0, returned: false };
}

test('one of a stream at a time, the next upon its confirm', () => {
  const order = new StreamOrder();
  const [a1, a2, a3, b1] = [pending('a'), pending('a'), pending('a'), pending('b')];
  expect([a1, a2, a3, b1].map((each) => order.enter(each))).toEqual([true, false, false, true]);
  expect(order.confirmed(a1)).toBe(a2);
  expect(order.confirmed(b1)).toBeUndefined();
  expect(order.confirmed(a2)).toBe(a3);
  expect(order.confirmed(a3)).toBeUndefined();
  expect(order.enter(pending('a'))).toBe(true);
});

test('what is not confirmed takes those behind it along, and no other stream', () => {
  const order = new StreamOrder();
  const [a1, a2, a3, b1, b2] = [pending('a'), pending('a'), pending('a'), pending('b'), pending('b')];
  for (const each of [a1, a2, a3, b1, b2]) order.enter(each);
  expect(order.cut(a1)).toEqual([a2, a3]);
  expect(order.confirmed(b1)).toBe(b2);
  expect(order.enter(pending('a'))).toBe(true);
});

test('one taken out of the middle leaves those before it', () => {
  const order = new StreamOrder();
  const [a1, a2, a3] = [pending('a'), pending('a'), pending('a')];
  for (const each of [a1, a2, a3]) order.enter(each);
  expect(order.cut(a2)).toEqual([a3]);
  expect(order.confirmed(a1)).toBeUndefined();
});

test('messages without a stream wait for nobody', () => {
  const order = new StreamOrder();
  expect(order.enter(pending(null))).toBe(true);
  expect(order.enter(pending(null))).toBe(true);
  expect(order.confirmed(pending(null))).toBeUndefined();
  expect(order.cut(pending(null))).toEqual([]);
});
