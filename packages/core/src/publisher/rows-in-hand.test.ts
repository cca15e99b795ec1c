import { describe, expect, test } from 'vitest';

import type { HeldMessage } from '../runtime/lanes.js';
import { RowsInHand } from './rows-in-hand.js';

let sequence = 0;

function row(messageId: string, streamId: string | null, more: Partial<HeldMessage> = {}): HeldMessage {
  sequence += 1;
  return {
    messageId,
    streamId,
    holder: 'me',
    attempts: 1,
    messageType: 'orders.order-placed',
    eventData: '{}',
    metadata: '{}',
    sequence: String(sequence),
    destination: 'orders',
    ageMs: 0,
    status: 1,
    suspect: false,
    parked: false,
    lastError: null,
    lastReason: 0,
    ...more,
  };
}

const ids = (rows: readonly HeldMessage[]) => rows.map(({ messageId }) => messageId).join(' ');

function inHand(...rows: readonly HeldMessage[]): RowsInHand {
  const hand = new RowsInHand();
  hand.add(rows);
  return hand;
}

describe('what the publisher has in hand', () => {
  test('a batch takes rows in their order, several of one stream too', () => {
    const hand = inHand(row('a1', 'a'), row('b1', 'b'), row('a2', 'a'), row('n', null));
    expect(ids(hand.take(10))).toBe('a1 b1 a2 n');
    expect(hand.size).toBe(0);
  });

  test('a stream is in one batch at a time, and its rows keep their order', () => {
    const hand = inHand(row('a1', 'a'), row('b1', 'b'), row('a2', 'a'), row('b2', 'b'), row('c1', 'c'));
    const first = hand.take(2);
    expect(ids(first)).toBe('a1 b1');
    expect(ids(hand.take(10))).toBe('c1');
    hand.ended(first);
    hand.add([row('a3', 'a')]);
    expect(ids(hand.take(10))).toBe('a2 b2 a3');
  });

  test('rows without a stream never wait for one another', () => {
    const hand = inHand(row('1', null), row('2', null));
    expect(ids(hand.take(1))).toBe('1');
    expect(ids(hand.take(1))).toBe('2');
  });

  test('rows of two holders are not mixed in one batch', () => {
    const hand = inHand(row('a1', 'a'), row('b1', 'b', { holder: 'me again' }), row('a2', 'a'));
    const first = hand.take(10);
    expect(ids(first)).toBe('a1');
    hand.ended(first);
    expect(ids(hand.take(10))).toBe('b1');
    expect(ids(hand.take(10))).toBe('a2');
  });

  test('a suspect is given out alone, when nothing stands before it', () => {
    const hand = inHand(row('a1', 'a'), row('s', 's', { suspect: true }), row('b1', 'b'));
    expect(hand.hasSuspect).toBe(true);
    expect(ids(hand.takeSuspect())).toBe('');
    expect(ids(hand.take(10))).toBe('a1');
    expect(ids(hand.take(10))).toBe('');
    expect(ids(hand.takeSuspect())).toBe('s');
    expect(hand.hasSuspect).toBe(false);
    expect(ids(hand.take(10))).toBe('b1');
  });

  test('streams that stop give their waiting rows back', () => {
    const hand = inHand(row('a1', 'a'), row('b1', 'b'), row('a2', 'a'), row('n', null));
    expect(ids(hand.stop(new Set(['a'])))).toBe('a1 a2');
    expect(ids(hand.clear())).toBe('b1 n');
    expect(hand.size).toBe(0);
  });
});
