import { describe, expect, test } from 'vitest';
import { errorFingerprint } from './error-fingerprint.js';
import { failureText } from './failure-text.js';

const cyclic = new Error('round and round');
cyclic.cause = new Error('half way', { cause: cyclic });
const cyclicObject: Record<string, unknown> = { code: 'E_ROUND' };
cyclicObject['self'] = cyclicObject;
const throwing = {
  toString(): string {
    throw new Error('no text');
  },
};
class Hostile extends Error {
  override get message(): string {
    throw new Error('no message');
  }
  override get stack(): string {
    throw new Error('no stack');
  }
}
const oddName = Object.assign(new Error('odd'), { name: 42, message: { not: 'text' }, stack: undefined });

const thrown: [string, unknown][] = [
  ['undefined', undefined],
  ['null', null],
  ['a symbol', Symbol('s')],
  ['a bigint', 1n],
  ['a string with NUL', 'a\0b'],
  ['lone surrogates', 'x\uD800y'],
  ['5 MB of text', new Error('x'.repeat(5_000_000))],
  ['5 MB that look like a stack', Object.assign(new Error('x'), { stack: `x\n    at ${'y'.repeat(5_000_000)}` })],
  ['an error with a cycle of causes', cyclic],
  ['an object with a cycle', cyclicObject],
  ['an object whose toString throws', throwing],
  ['an error whose members throw', new Hostile()],
  ['an error whose members are no text', oddName],
  ['an object without a prototype', Object.create(null)],
  ['a proxy that throws', new Proxy({}, { get: () => expect.fail(), getPrototypeOf: () => expect.fail() })],
  ['a function', () => undefined],
];

test.each(thrown)('%s becomes a bounded text that PostgreSQL takes, and a fingerprint', (_, error) => {
  const begun = performance.now();
  const text = failureText(error);
  expect(text.length).toBeGreaterThan(0);
  expect(text.length).toBeLessThanOrEqual(4_000);
  expect(text).not.toContain('\0');
  expect(text.isWellFormed()).toBe(true);
  expect(errorFingerprint(error)).toMatch(/^[0-9a-f]{16}$/);
  // Nothing that grows with the square of its length: 5 MB of that would take hours.
  expect(performance.now() - begun).toBeLessThan(5_000);
});

test('what an error was caused by is in its text', () => {
  const cause = new Error('connect ECONNREFUSED 127.0.0.1:5432');
  expect(failureText(new Error('the order could not be saved', { cause }))).toContain(
    'caused by Error: connect ECONNREFUSED',
  );
  expect(failureText({ code: 'E_STOCK', left: 0 })).toContain("code: 'E_STOCK'");
});

test.each([
  'postgres://app:hunter2@db.internal/orders',
  'connect to amqp://guest:hunter2@localhost:5672/%2f failed',
  'Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=hunter2=',
  'host=db password=hunter2 user=app',
  '{"user":"app","password":"hunter2"}',
  "{ user: 'app', password: 'hunter2' }",
])('secrets are masked: %s', (secret) => {
  for (const error of [new Error(secret), secret, new Error('outer', { cause: new Error(secret) })]) {
    expect(failureText(error)).not.toContain('hunter2');
  }
});

describe('fingerprint', () => {
  const failAt = (message: string) => new TypeError(message);

  test('is the same for one kind of failure, whatever ids, numbers, quoted values and paths are in it', () => {
    const one = failAt(`order 17 of '0190aaaa-0000-7000-8000-000000000001' in "/srv/a" has no item`);
    const two = failAt(`order 99182 of '0190bbbb-1111-7000-8000-0000000000ff' in "/home/b" has no item`);
    two.stack = one.stack?.replaceAll(/\/[^\s:()]*\//g, '/elsewhere/').replaceAll(/:\d+:\d+/g, ':1:2') ?? '';
    expect(errorFingerprint(two)).toBe(errorFingerprint(one));
  });

  test('differs by type, by text and by where it was thrown', () => {
    const base = failAt('no item');
    const otherType = Object.assign(new RangeError('no item'), { stack: base.stack });
    const otherText = Object.assign(failAt('no stock'), { stack: base.stack });
    const elsewhere = (function somewhereElse() {
      return new TypeError('no item');
    })();
    const all = [base, otherType, otherText, elsewhere].map(errorFingerprint);
    expect(new Set(all).size).toBe(4);
  });

  test('of things that are no errors groups by their text', () => {
    expect(errorFingerprint('stock 5 is gone')).toBe(errorFingerprint('stock 7 is gone'));
    expect(errorFingerprint('stock 5 is gone')).not.toBe(errorFingerprint('no stock'));
  });
});
