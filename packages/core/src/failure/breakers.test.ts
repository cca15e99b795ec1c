import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { MessageFailureReason } from '../contract/message-failure-reason.js';
import { Breakers } from './breakers.js';

const { TransportException, TransportNotReady, Throttled } = MessageFailureReason;
const logged: string[] = [];
const log = (_: unknown, message?: string) => void logged.push(message ?? '');
const logger = { debug: log, info: log, warn: log, error: log };
const options = { enabled: true, failureThreshold: 5, initialCooldownMs: 1_000, maxCooldownMs: 4_000 };

let breakers: Breakers;
beforeEach(() => {
  // `performance` too: the breakers' clock is the monotonic one.
  vi.useFakeTimers({ toFake: ['performance'] });
  logged.length = 0;
  breakers = new Breakers('destination', options, logger);
});
afterEach(() => {
  vi.useRealTimers();
});

const fail = (times: number, reason: MessageFailureReason = TransportException, key = 'orders') => {
  for (let time = 0; time < times; time += 1) breakers.failed(key, reason);
};
const trials = () =>
  Object.fromEntries(breakers.closed().keys.map((key, index) => [key, breakers.closed().trials[index]]));

describe('a breaker', () => {
  test('takes neither one message at all its retries nor faults that differ for a failure of all', () => {
    for (let time = 0; time < 9; time += 1) breakers.failed('orders', TransportException, { messageId: 'one' });
    for (let time = 0; time < 9; time += 1) {
      breakers.failed('orders', TransportException, { messageId: `m${time}`, fingerprint: `f${time}` });
    }
    expect(breakers.states()).toEqual([]);
    for (let time = 0; time < 5; time += 1) {
      breakers.failed('orders', TransportException, { messageId: `m${time}`, fingerprint: 'the same' });
    }
    expect(breakers.states()).toHaveLength(1);
  });

  test('opens after five failures of one reason in a row, and says so once', () => {
    fail(4);
    expect(breakers.closed().keys).toEqual([]);
    fail(3);
    expect(breakers.closed()).toEqual({ keys: ['orders'], seconds: [1], trials: [false] });
    expect(breakers.states()).toEqual([{ key: 'orders', reason: 'TransportException', retryInMs: 1_000 }]);
    expect(logged.filter((line) => line.startsWith('A breaker opened'))).toHaveLength(1);
  });

  test('does not open for failures of several kinds, nor when one success is between them', () => {
    fail(4);
    fail(4, TransportNotReady);
    fail(4);
    expect(breakers.closed().keys).toEqual([]);
    breakers.succeeded('orders');
    fail(4);
    expect(breakers.closed().keys).toEqual([]);
  });

  test('concerns its own key only', () => {
    fail(5);
    fail(4, TransportException, 'payments');
    expect(breakers.closed().keys).toEqual(['orders']);
  });

  test('lets one through after its pause, and no other while that one is out', () => {
    fail(5);
    vi.advanceTimersByTime(999);
    expect(trials()).toEqual({ orders: false });
    vi.advanceTimersByTime(1);
    expect(trials()).toEqual({ orders: true });
    breakers.handedOut(['payments']);
    expect(trials()).toEqual({ orders: true });
    breakers.handedOut(['orders']);
    expect(trials()).toEqual({ orders: false });
    // A trial that ends without a word, as at an outage, is not waited for for ever.
    vi.advanceTimersByTime(2_000);
    expect(trials()).toEqual({ orders: true });
  });

  test('closes when the trial succeeds', () => {
    fail(5);
    vi.advanceTimersByTime(1_000);
    breakers.handedOut(['orders']);
    breakers.succeeded('orders');
    expect(breakers.closed().keys).toEqual([]);
    expect(breakers.states()).toEqual([]);
    expect(logged.at(-1)).toContain('closed');
  });

  test('pauses twice as long after each trial that fails, up to its limit', () => {
    fail(5);
    const pauses: number[] = [];
    for (let trial = 0; trial < 4; trial += 1) {
      pauses.push(breakers.states()[0]?.retryInMs ?? 0);
      vi.advanceTimersByTime(pauses.at(-1) ?? 0);
      breakers.handedOut(['orders']);
      fail(1);
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 4_000]);
  });

  test('takes failures of what was in hand when it opened for nothing new', () => {
    fail(50);
    expect(breakers.states()[0]?.retryInMs).toBe(1_000);
  });

  test('does nothing when it is switched off', () => {
    breakers = new Breakers('destination', { ...options, enabled: false }, logger);
    fail(50);
    expect(breakers.closed().keys).toEqual([]);
  });
});

describe('throttling', () => {
  test('pauses five times, 250 ms doubled up to 4 s, and is then a failure', () => {
    const pauses: number[] = [];
    for (let time = 0; time < 5; time += 1) {
      expect(breakers.throttled('orders')).toBe(true);
      pauses.push(breakers.states()[0]?.retryInMs ?? 0);
      vi.advanceTimersByTime(pauses.at(-1) ?? 0);
    }
    expect(pauses).toEqual([250, 500, 1_000, 2_000, 4_000]);
    expect(breakers.throttled('orders')).toBe(false);
    breakers.failed('orders', Throttled);
    expect(breakers.states()).toMatchObject([{ reason: 'Throttled', retryInMs: 1_000 }]);
  });

  test('is one pause for everything that was in hand', () => {
    for (let time = 0; time < 50; time += 1) expect(breakers.throttled('orders')).toBe(true);
    expect(breakers.states()[0]?.retryInMs).toBe(250);
  });

  test.each([
    ['respects what the broker asks for', 3_000, 3_000],
    ['within reason', 1e12, 4_000],
    ['whatever it says', Number.NaN, 250],
  ])('%s', (_, retryAfterMs, pause) => {
    expect(breakers.throttled('orders', retryAfterMs)).toBe(true);
    expect(breakers.states()[0]?.retryInMs).toBe(pause);
  });

  test('starts anew after a success', () => {
    for (let time = 0; time < 5; time += 1) {
      breakers.throttled('orders');
      vi.advanceTimersByTime(4_000);
    }
    breakers.succeeded('orders');
    expect(breakers.throttled('orders')).toBe(true);
    expect(breakers.states()[0]?.retryInMs).toBe(250);
  });
});
