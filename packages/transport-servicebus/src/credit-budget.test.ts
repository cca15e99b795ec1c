import { expect, test } from 'vitest';
import { CreditBudget } from './credit-budget.js';

const never = new AbortController().signal;

test('no more is given out than there is', async () => {
  const budget = new CreditBudget(2);
  expect([await budget.take(never), budget.tryTake(), budget.tryTake()]).toEqual([true, true, false]);
  budget.giveBack(1);
  expect(budget.tryTake()).toBe(true);
});

test('who waits for a first one comes before who wants more', async () => {
  const budget = new CreditBudget(1);
  expect(budget.tryTake()).toBe(true);
  const waiting = budget.take(never);
  expect(budget.awaited).toBe(true);
  budget.giveBack(1);
  expect(await waiting).toBe(true);
  expect(budget.awaited).toBe(false);
  expect(budget.tryTake()).toBe(false);
});

test('an abort ends the waiting, and takes nothing', async () => {
  const budget = new CreditBudget(1);
  expect(budget.tryTake()).toBe(true);
  const stop = new AbortController();
  const waiting = budget.take(stop.signal);
  stop.abort();
  expect(await waiting).toBe(false);
  budget.giveBack(1);
  expect(budget.tryTake()).toBe(true);
});
