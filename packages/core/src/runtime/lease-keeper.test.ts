import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { silentLogger } from '../contract/logger.js';
import { LeaseKeeper } from './lease-keeper.js';

const one = (messageId: string) => ({ messageId, attempts: 3 });
// A lease of three seconds is renewed every second.
const leaseSeconds = 3;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function keeperWith(options: { lost?: readonly string[]; maxRenewals?: number; fails?: () => boolean } = {}) {
  const renewed: string[] = [];
  const ended: string[] = [];
  const keeper = new LeaseKeeper(
    leaseSeconds,
    silentLogger,
    async (holder, tries) => {
      if (options.fails?.() === true) throw new Error('the database is away');
      renewed.push(...tries.map((row) => `${holder}/${row.messageId}/${row.attempts}`));
      return options.lost ?? [];
    },
    { maxRenewals: options.maxRenewals ?? Infinity, onEnding: (messageId) => ended.push(messageId) },
  );
  return { keeper, renewed, ended };
}

describe('leases of rows in hand', () => {
  test('are renewed every third of their time, under the id that claimed them', async () => {
    const { keeper, renewed } = keeperWith();
    keeper.hold('me', [one('a')], performance.now());
    keeper.hold('me before', [one('b')], performance.now());
    await vi.advanceTimersByTimeAsync(999);
    expect(renewed).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_001);
    expect(renewed).toEqual(['me/a/3', 'me before/b/3', 'me/a/3', 'me before/b/3']);
    keeper.stop();
  });

  test('are not renewed before their time, nor when the row was put down, nor after the stop', async () => {
    const { keeper, renewed } = keeperWith();
    keeper.hold('me', [one('a'), one('b')], performance.now());
    await vi.advanceTimersByTimeAsync(500);
    keeper.hold('me', [one('c')], performance.now());
    keeper.drop([one('a')]);
    await vi.advanceTimersByTimeAsync(500);
    expect(renewed).toEqual(['me/b/3']);
    expect(keeper.held).toBe(2);
    keeper.stop();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(renewed).toEqual(['me/b/3']);
  });

  test('end, once, after so many renewals', async () => {
    const { keeper, renewed, ended } = keeperWith({ maxRenewals: 2 });
    keeper.hold('me', [one('a')], performance.now());
    await vi.advanceTimersByTimeAsync(10_000);
    expect([renewed.length, ended, keeper.held]).toEqual([2, ['a'], 0]);
    keeper.stop();
  });

  test('end when the row turns out to be somebody else’s', async () => {
    const { keeper, ended } = keeperWith({ lost: ['a'] });
    keeper.hold('me', [one('a'), one('b')], performance.now());
    await vi.advanceTimersByTimeAsync(3_000);
    expect([ended, keeper.held]).toEqual([['a'], 1]);
    keeper.stop();
  });

  test('are tried again at the next interval while the database is away', async () => {
    let isAway = true;
    const { keeper, renewed, ended } = keeperWith({ fails: () => isAway });
    keeper.hold('me', [one('a')], performance.now());
    await vi.advanceTimersByTimeAsync(1_000);
    isAway = false;
    await vi.advanceTimersByTimeAsync(1_000);
    expect([renewed, ended]).toEqual([['me/a/3'], []]);
    keeper.stop();
  });

  test('end when they could not be renewed for their whole time, also while a renewal is not answered', async () => {
    const { keeper, ended } = keeperWith({ fails: () => true });
    keeper.hold('me', [one('a')], performance.now());
    await vi.advanceTimersByTimeAsync(2_000);
    expect([ended, keeper.holds(one('a'))]).toEqual([[], true]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect([ended, keeper.holds(one('a'))]).toEqual([['a'], false]);
    keeper.stop();

    const silent: string[] = [];
    const unanswered = new LeaseKeeper(leaseSeconds, silentLogger, () => new Promise(() => undefined), {
      maxRenewals: Infinity,
      onEnding: (messageId) => silent.push(messageId),
    });
    unanswered.hold('me', [one('a')], performance.now());
    await vi.advanceTimersByTimeAsync(3_000);
    expect(silent).toEqual(['a']);
    unanswered.stop();
  });

  test('run from the time of the claim, however late its answer is read', async () => {
    const { keeper } = keeperWith();
    const claimedAt = performance.now();
    await vi.advanceTimersByTimeAsync(2_900);
    keeper.hold('me', [one('a')], claimedAt);
    expect(keeper.holds(one('a'))).toBe(true);
    expect(keeper.holds({ messageId: 'a', attempts: 4 })).toBe(false);
    await vi.advanceTimersByTimeAsync(100);
    expect(keeper.holds(one('a'))).toBe(false);
    keeper.stop();
  });

  test('of another try of a row replace those of the try before', async () => {
    const { keeper } = keeperWith();
    keeper.hold('me', [one('a')], performance.now());
    keeper.hold('me', [{ messageId: 'a', attempts: 4 }], performance.now());
    keeper.drop([one('a')]);
    expect(keeper.holds({ messageId: 'a', attempts: 4 })).toBe(true);
    keeper.stop();
  });

  test('end, once, when this process claims the row again before it has noticed that they ran out', async () => {
    const { keeper, ended } = keeperWith({ fails: () => true });
    keeper.hold('me', [one('a')], performance.now());
    await vi.advanceTimersByTimeAsync(2_900);
    keeper.hold('me', [one('a')], performance.now());
    expect(ended).toEqual([]);
    keeper.hold('me anew', [{ messageId: 'a', attempts: 4 }], performance.now());
    expect(ended).toEqual(['a']);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(ended).toEqual(['a']);
    keeper.stop();
  });
});
