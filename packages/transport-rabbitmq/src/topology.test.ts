import { expect, test } from 'vitest';
import { queueArguments, versionAtLeast } from './topology.js';

test('versions compare by number', () => {
  expect(versionAtLeast('3.10.8', 3, 8)).toBe(true);
  expect(versionAtLeast('3.7.28', 3, 8)).toBe(false);
  expect(versionAtLeast('4.0.1', 4, 0)).toBe(true);
  expect(versionAtLeast('3.13.7', 4, 0)).toBe(false);
  expect(versionAtLeast('unknown', 4, 0)).toBe(true);
});

test('no queue of ours drops a message for its number of deliveries', () => {
  expect(queueArguments('quorum', true)).toEqual({
    'x-queue-type': 'quorum',
    'x-delivery-limit': 2_147_483_647,
    'x-single-active-consumer': true,
  });
  expect(queueArguments('classic', false)).toEqual({ 'x-queue-type': 'classic' });
});
