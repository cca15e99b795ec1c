import { expect, test } from 'vitest';
import { WakeSignal } from './wake-signal.js';

const forever = 2 ** 40;

test('a ring ends the wait', async () => {
  const wake = new WakeSignal();
  const waiting = wake.wait(forever);
  wake.ring();
  expect(await waiting).toBe(true);
});

test('a ring between two waits ends the next one at once, and any number of rings are one', async () => {
  const wake = new WakeSignal();
  wake.ring();
  wake.ring();
  expect(await wake.wait(forever)).toBe(true);
  expect(await wake.wait(1)).toBe(false);
});

test('without a ring the wait ends with its time', async () => {
  const wake = new WakeSignal();
  expect(await wake.wait(1)).toBe(false);
  expect(await wake.wait(-1)).toBe(false);
});
