import { expect, test } from 'vitest';
import { OwedSettlements } from './owed-settlements.js';

const one = (messageId: string) => ({ messageId, attempts: 1 });
const failed = { ...one('f'), completedStatus: 1, error: 'x', reason: 99 } as const;

test('what is owed is taken under the id that claimed it, the longest known first, whole', () => {
  const owed = new OwedSettlements();
  owed.add('old', { completed: [one('a')] });
  owed.add('new', { released: [one('b')] });
  owed.add('old', { failed: [failed], deferred: [one('d')] });
  expect(owed.size).toBe(4);
  expect(owed.take()).toEqual({
    holder: 'old',
    settlements: { completed: [one('a')], failed: [failed], released: [], deferred: [one('d')] },
  });
  expect(owed.size).toBe(1);
  expect(owed.take()?.holder).toBe('new');
  expect(owed.take()).toBeUndefined();
});

test('what could not be delivered is owed again, together with what came meanwhile', () => {
  const owed = new OwedSettlements();
  owed.add('me', { completed: [one('a')] });
  const taken = owed.take();
  owed.add('me', { completed: [one('b')] });
  if (taken !== undefined) owed.putBack(taken);
  expect(
    owed
      .take()
      ?.settlements.completed.map((row) => row.messageId)
      .toSorted(),
  ).toEqual(['a', 'b']);
});

test('nothing owed is nothing to take', () => {
  const owed = new OwedSettlements();
  owed.add('me', { completed: [], failed: [] });
  expect([owed.size, owed.take()]).toEqual([0, undefined]);
});

test('the lists of whoever adds are not changed', () => {
  const owed = new OwedSettlements();
  const completed = [one('a')];
  owed.add('me', { completed });
  owed.add('me', { completed: [one('b')] });
  expect(completed).toHaveLength(1);
});
