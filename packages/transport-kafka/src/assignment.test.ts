import { expect, test } from 'vitest';
import { type Assignment, assign } from './assignment.js';

const member = (memberId: string, owned: Assignment = {}, topics = ['orders']) => ({ memberId, topics, owned });

const partitionsOf = (assigned: ReadonlyMap<string, Assignment>): number[] =>
  [...assigned.values()].flatMap(({ orders }) => orders ?? []).toSorted((a, b) => a - b);

test('partitions are spread evenly', () => {
  const assigned = assign([member('b'), member('a')], new Map([['orders', 5]]));
  expect([...assigned.values()].map(({ orders }) => orders?.length)).toEqual([3, 2]);
  expect(partitionsOf(assigned)).toEqual([0, 1, 2, 3, 4]);
});

test('a member that joins takes only what is over the fair share of the others', () => {
  const assigned = assign([member('a', { orders: [0, 1, 2] }), member('b')], new Map([['orders', 3]]));
  expect(assigned.get('a')).toEqual({ orders: [0, 1] });
  expect(assigned.get('b')).toEqual({ orders: [2] });
});

test('with one partition the member that had it keeps it, whatever the names', () => {
  const assigned = assign([member('a'), member('b', { orders: [0] })], new Map([['orders', 1]]));
  expect(assigned.get('b')).toEqual({ orders: [0] });
  expect(assigned.get('a')).toEqual({});
});

test('what two members claim goes to one of them', () => {
  const assigned = assign([member('a', { orders: [0, 1] }), member('b', { orders: [0, 1] })], new Map([['orders', 2]]));
  expect(partitionsOf(assigned)).toEqual([0, 1]);
});

test('single partitions of several topics go to different members', () => {
  const both = ['orders', 'payments'];
  const assigned = assign(
    [member('a', {}, both), member('b', {}, both)],
    new Map([
      ['orders', 1],
      ['payments', 1],
    ]),
  );
  expect([...assigned.values()].map((assignment) => Object.keys(assignment))).toEqual([['orders'], ['payments']]);
});

test('a topic goes only to members that want it, and what they had of a topic that has shrunk is forgotten', () => {
  const assigned = assign([member('a', {}, ['payments']), member('b', { orders: [7] })], new Map([['orders', 2]]));
  expect(assigned.get('a')).toEqual({});
  expect(assigned.get('b')).toEqual({ orders: [0, 1] });
});
