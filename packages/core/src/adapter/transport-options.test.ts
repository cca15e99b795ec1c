import { expect, test } from 'vitest';
import { type OptionTable, flag, oneOf, readOptions, wholeNumber } from './transport-options.js';

interface Options {
  readonly declare?: boolean;
  readonly prefetch?: number;
  readonly mode?: 'fast' | 'safe';
}

const table: OptionTable<Options> = {
  declare: [flag, true],
  prefetch: [wholeNumber(1, 100), 10],
  mode: [oneOf('fast', 'safe'), undefined],
};

function read(connectionString: [string, string][], code: Record<string, unknown> = {}) {
  const violations: string[] = [];
  return { resolved: readOptions(table, { connectionString, code }, violations), violations };
}

test('what is not given, or given as undefined, has its default', () => {
  expect(read([], { prefetch: undefined }).resolved).toEqual({ declare: true, prefetch: 10, mode: undefined });
});

test('what is given in code wins over the connection string, where values are text', () => {
  const given: [string, string][] = [
    ['declare', 'False'],
    ['prefetch', '7'],
    ['mode', 'fast'],
  ];
  expect(read(given, { prefetch: 8 })).toEqual({
    resolved: { declare: false, prefetch: 8, mode: 'fast' },
    violations: [],
  });
});

test('everything wrong is said at once, with where it stands and without the value', () => {
  const { violations } = read([['secret', 's3cret']], { declare: 1, prefetch: 'x', mode: 's3cret', toString: 1 });
  expect(violations).toEqual([
    'connection string: secret: there is no such option; there are declare, prefetch, mode',
    'declare: must be true or false',
    'prefetch: must be a whole number from 1 to 100',
    'mode: must be "fast" or "safe"',
    'toString: there is no such option; there are declare, prefetch, mode',
  ]);
});

test.each(['0', '101', '1.5', '-1', '1e2', ' 7', '9'.repeat(16), 7.5, null])('%j is no whole number', (value) => {
  expect(() => wholeNumber(1, 100)(value)).toThrow('must be a whole number from 1 to 100');
});
