import { beforeEach, describe, expect, test } from 'vitest';
import { type HeldMessage, Lanes, type Unit } from './lanes.js';

/** `a1`: the first row of stream `a`; `-1`: a row without a stream. What follows a dot is its type: `a1.order`. */
const row = (label: string): HeldMessage => ({
  messageId: label,
  holder: 'me',
  attempts: 1,
  messageType: label.split('.')[1] ?? 'order',
  eventData: '{}',
  metadata: '{}',
  streamId: label.startsWith('-') ? null : label.slice(0, 1),
  sequence: '1',
  destination: 'orders',
  ageMs: 0,
  status: 1,
  suspect: false,
  parked: false,
  lastError: null,
  lastReason: 99,
});
const rows = (...labels: string[]) => labels.map(row);
const labelsOf = (list: readonly HeldMessage[] | undefined) => list?.map((one) => one.messageId);

let lanes: Lanes;
beforeEach(() => {
  lanes = new Lanes();
});
const take = (max = 1): Unit | undefined => lanes.take(() => max);
const takeUnit = (max = 1): Unit => {
  const unit = take(max);
  if (unit === undefined) throw new Error('there is nothing to take');
  return unit;
};

test('a stream gives out its next row only when the one before has ended', () => {
  lanes.add(rows('a1', 'a2'));
  const first = takeUnit();
  expect(labelsOf(first.rows)).toEqual(['a1']);
  expect(take()).toBeUndefined();
  lanes.done(first);
  expect(labelsOf(take()?.rows)).toEqual(['a2']);
});

test('streams and rows without one do not wait for each other', () => {
  lanes.add(rows('a1', '-1', 'b1', '-2', 'a2'));
  expect([take(), take(), take(), take(), take()].map((unit) => labelsOf(unit?.rows))).toEqual([
    ['a1'],
    ['-1'],
    ['b1'],
    ['-2'],
    undefined,
  ]);
  expect(lanes.waiting).toBe(1);
});

test('a lane that has gone on waits behind those that have not had their turn', () => {
  lanes.add(rows('a1', 'a2', 'b1'));
  lanes.done(takeUnit());
  expect(labelsOf(take()?.rows)).toEqual(['b1']);
  expect(labelsOf(take()?.rows)).toEqual(['a2']);
});

test('rows that find their lane full are given back, in order', () => {
  expect(labelsOf(lanes.add(rows('a1', 'a2', 'b1', 'a3', 'a4'), 2))).toEqual(['a3', 'a4']);
  expect(lanes.waiting).toBe(3);
});

describe('a batch', () => {
  test('gathers rows of its type over streams, each in its order, up to its size', () => {
    lanes.add(rows('a1', 'a2', 'b1', '-1', 'c1', 'c2'));
    const unit = takeUnit(5);
    expect(labelsOf(unit.rows)).toEqual(['a1', 'a2', 'b1', '-1', 'c1']);
    expect(take(5)).toBeUndefined();
    lanes.done(unit);
    expect(labelsOf(take(5)?.rows)).toEqual(['c2']);
  });

  test('ends in each stream where another type begins', () => {
    lanes.add(rows('a1', 'a2.refund', 'a3', 'b1.refund', 'c1'));
    expect(labelsOf(take(10)?.rows)).toEqual(['a1', 'c1']);
    expect(labelsOf(take(10)?.rows)).toEqual(['b1.refund']);
  });

  test('that failed is given out again row by row, in its old order, while others still batch', () => {
    lanes.add(rows('a1', 'a2', 'b1', 'c1.refund', 'd1.refund'));
    const unit = takeUnit(3);
    lanes.separate(unit);
    expect(lanes.waiting).toBe(5);
    expect(labelsOf(take(3)?.rows)).toEqual(['c1.refund', 'd1.refund']);
    const alone = takeUnit(3);
    expect(labelsOf(alone.rows)).toEqual(['a1']);
    expect(labelsOf(take(3)?.rows)).toEqual(['b1']);
    lanes.done(alone);
    expect(labelsOf(take(3)?.rows)).toEqual(['a2']);
  });

  test('does not take along a row that is to be tried alone', () => {
    lanes.add(rows('a1', 'b1'));
    const failed = takeUnit(2);
    lanes.add(rows('a2', 'c1'));
    lanes.separate(failed);
    expect(labelsOf(take(10)?.rows)).toEqual(['c1']);
    const [first, second] = [takeUnit(10), takeUnit(10)];
    expect([first, second].map((unit) => labelsOf(unit.rows))).toEqual([['a1'], ['b1']]);
    lanes.done(first);
    expect(labelsOf(take(10)?.rows)).toEqual(['a2']);
  });
});

describe('a stream that stops', () => {
  test('gives back what waited behind the unit that failed, and starts anew', () => {
    lanes.add(rows('a1', 'b1', 'a2', 'a3'));
    expect(labelsOf(lanes.stop(takeUnit()))).toEqual(['a2', 'a3']);
    expect(lanes.waiting).toBe(1);
    lanes.add(rows('a4'));
    expect(labelsOf(take()?.rows)).toEqual(['b1']);
    expect(labelsOf(take()?.rows)).toEqual(['a4']);
  });

  test('gives back what waits when it is somebody else’s now, unless a row is in hand', () => {
    lanes.add(rows('a1', 'a2', 'b1', 'b2'));
    const unit = takeUnit();
    expect(lanes.stopStream('a')).toEqual([]);
    expect(labelsOf(lanes.stopStream('b'))).toEqual(['b1', 'b2']);
    expect(lanes.stopStream('c')).toEqual([]);
    lanes.done(unit);
    expect(labelsOf(take()?.rows)).toEqual(['a2']);
  });
});

test('everything that was not given out can be put down, and what was in hand may still end', () => {
  lanes.add(rows('a1', 'a2', 'b1', '-1'));
  const unit = takeUnit();
  expect(labelsOf(lanes.clear())).toEqual(['a2', 'b1', '-1']);
  expect([lanes.waiting, take()]).toEqual([0, undefined]);
  lanes.done(unit);
  lanes.add(rows('a3', 'b2'));
  expect(labelsOf(take()?.rows)).toEqual(['a3']);
  expect(labelsOf(take()?.rows)).toEqual(['b2']);
});
