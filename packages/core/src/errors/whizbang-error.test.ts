import { expect, test } from 'vitest';
import { ConfigurationError, MessageRefusedError, WhizbangError, isWhizbangError } from './whizbang-error.js';

test('errors of another copy of the library are known by their brand', () => {
  const foreign = Object.assign(new Error('from another copy'), { [Symbol.for('whizbang.error')]: true });
  expect([foreign, new ConfigurationError('x')].map(isWhizbangError)).toEqual([true, true]);
  expect([new Error('x'), null, undefined, 'x'].map(isWhizbangError)).toEqual([false, false, false, false]);
});

test('an error has its name, its code, and whether another try can help', () => {
  const error = new MessageRefusedError('orders.placed', ['a: wrong', 'b: missing']);
  expect(error).toBeInstanceOf(WhizbangError);
  expect(error).toMatchObject({ name: 'MessageRefusedError', code: 'WHIZBANG_MESSAGE_REFUSED', retryable: false });
  expect(error.message).toBe("Message 'orders.placed' was not published: a: wrong; b: missing.");
});
