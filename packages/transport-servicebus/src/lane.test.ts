import { type OutgoingMessage, PublishCall } from '@whizbang/core/transport';
import { expect, test } from 'vitest';
import { Lane } from './lane.js';
import type { PendingMessage } from './pending-message.js';

const call = new PublishCall<PendingMessage>(0, new AbortController().signal, () => undefined);

function pendingIn(lane: Lane, streamId: string | null = null, destination = 'orders'): PendingMessage {
  const message: OutgoingMessage = {
    messageId: 'm',
    destination,
    messageType: 't',
    streamId,
    attributes: {},
    headers: {},
    body: Buffer.alloc(0),
  };
  const pending: PendingMessage = { message, encoded: { body: '' }, lane, call, index: 0, state: 'waiting' };
  lane.add(pending);
  return pending;
}

const all = (): boolean => true;

test('a group is what fits, in order, up to the next destination', () => {
  const lane = new Lane();
  const [a, b, c] = [pendingIn(lane), pendingIn(lane), pendingIn(lane, null, 'elsewhere')];
  let room = 1;
  expect(lane.take(() => room-- > 0)).toEqual([a]);
  expect(lane.take(all)).toEqual([b]);
  expect(lane.take(all)).toEqual([c]);
  expect(lane.first()).toBeUndefined();
});

test('what is settled meanwhile is passed over', () => {
  const lane = new Lane();
  const [a, b, c] = [pendingIn(lane), pendingIn(lane), pendingIn(lane)];
  a.state = 'settled';
  b.state = 'settled';
  expect(lane.first()).toBe(c);
  expect(lane.take(all)).toEqual([c]);
});

test('a group that is put back goes first and in smaller ones, and what comes behind it does not', () => {
  const lane = new Lane();
  const group = [pendingIn(lane), pendingIn(lane), pendingIn(lane)];
  lane.take(all);
  const behind = [pendingIn(lane), pendingIn(lane)];
  for (const pending of group) pending.state = 'sent';
  lane.putBack(group, 2);
  expect(lane.take(all)).toEqual(group.slice(0, 2));
  expect(lane.take(all)).toEqual([group[2], behind[0]]);
  expect(lane.take(all)).toEqual([behind[1]]);
});

test('a stream that is cut takes along what waits of it, and nothing else', () => {
  const lane = new Lane();
  const [a1, b1, a2] = [pendingIn(lane, 'a'), pendingIn(lane, 'b'), pendingIn(lane, 'a')];
  expect(lane.cut('a')).toEqual([a1, a2]);
  expect(lane.takeAll()).toEqual([b1]);
});
