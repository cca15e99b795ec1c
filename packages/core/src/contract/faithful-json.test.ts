import { describe, expect, test } from 'vitest';
import { faithfulJson, isDeeperThan, maxJsonDepth } from './faithful-json.js';

const nest = (depth: number): unknown => {
  let value: unknown = [];
  for (let level = 1; level < depth; level += 1) value = level % 2 === 0 ? [value] : { in: value };
  return value;
};

describe('a value that JSON can hold is read back as it was', () => {
  test.each<readonly [string, unknown]>([
    ['text', 'ü'],
    ['a NUL character', 'a\0b'],
    ['half a surrogate pair', '\ud83d'],
    ['an emoji as key', { '🚀': 1 }],
    ['an empty object', {}],
    ['null', null],
    ['numbers', [0, 1.5, -1e300, Number.MAX_SAFE_INTEGER]],
    ['a key called __proto__', JSON.parse('{"__proto__": {"a": 1}}')],
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 })],
    ['the deepest nest', nest(maxJsonDepth)],
    ['one object in two places', [nest(2), nest(2)]],
    ['a megabyte', { text: 'x'.repeat(1_000_000) }],
  ])('%s', (_, value) => {
    expect(JSON.parse(faithfulJson(value))).toEqual(value);
  });

  test('a property that is undefined counts as absent', () => {
    expect(faithfulJson({ a: undefined, b: 1 })).toBe('{"b":1}');
  });

  test('an object that occurs twice, and not in itself, is no cycle', () => {
    const shared = { a: 1 };
    expect(faithfulJson({ first: shared, second: shared })).toBe('{"first":{"a":1},"second":{"a":1}}');
  });
});

describe('a value that JSON would change is refused with the path to it', () => {
  const cycle: { self?: unknown } = {};
  cycle.self = [cycle];
  test.each<readonly [string, unknown, RegExp]>([
    ['undefined', undefined, /^\$ is undefined/],
    ['undefined in an array', { list: [1, undefined] }, /^\$\.list\[1\] is undefined/],
    // oxlint-disable-next-line no-sparse-arrays -- a hole is the case
    ['a hole', [1, , 2], /^\$\[1\] is undefined/],
    ['NaN', { a: { b: Number.NaN } }, /^\$\.a\.b is NaN/],
    ['an infinity', [-Infinity], /^\$\[0\] is -Infinity/],
    ['a BigInt', { id: 1n }, /^\$\.id is a BigInt/],
    ['a function', { run: () => 1 }, /^\$\.run is a function/],
    ['a symbol', { tag: Symbol('a') }, /^\$\.tag is a symbol/],
    ['a symbol as key', { [Symbol('a')]: 1 }, /^\$ has a symbol as key/],
    ['a Date', { at: new Date(0) }, /^\$\.at is a Date.*toISOString/],
    ['a Map', new Map(), /^\$ is a Map/],
    ['bytes', { bytes: new Uint8Array(2) }, /^\$\.bytes is a Uint8Array/],
    ['a boxed text', Object('a'), /^\$ is a String/],
    ['an instance of a class', new (class Order {})(), /^\$ is a Order/],
    ['a toJSON method of its own', { toJSON: () => 1 }, /^\$ has a toJSON method/],
    ['what a regular expression found', /(?<letter>a)/.exec('a'), /^\$ is an array with the member groups/],
    ['an array with a toJSON method', Object.assign([1], { toJSON: () => 2 }), /^\$ has a toJSON method/],
    ['a cycle', cycle, /^\$\.self\[0\] refers back/],
    ['too deep a nest', nest(maxJsonDepth + 1), /nested more than 500 levels/],
  ])('%s', (_, value, sentence) => {
    expect(() => faithfulJson(value)).toThrow(sentence);
  });
});

test('what somebody has added to the prototypes of the language changes nothing unnoticed', () => {
  const prototypes = [BigInt.prototype, Array.prototype, Object.prototype];
  for (const prototype of prototypes) {
    Object.defineProperty(prototype, 'toJSON', { value: () => 'changed', configurable: true });
    try {
      expect(() => faithfulJson({ id: 1n }), prototype.constructor.name).toThrow(/is a BigInt|has a toJSON method/);
      if (prototype !== BigInt.prototype) expect(() => faithfulJson([1])).toThrow('$ has a toJSON method');
    } finally {
      delete (prototype as { toJSON?: unknown }).toJSON;
    }
  }
});

describe('of a text from elsewhere it is told whether it is nested too deep', () => {
  test.each<readonly [string, string, boolean]>([
    ['short', '[[]]', false],
    ['as deep as may be', JSON.stringify(nest(maxJsonDepth)).padEnd(5_000), false],
    ['one level deeper', JSON.stringify(nest(maxJsonDepth + 1)), true],
    ['wide', `[${'[],'.repeat(5_000)}1]`, false],
    ['brackets in a text', JSON.stringify({ text: '['.repeat(5_000) }), false],
    ['brackets behind an escaped quote', JSON.stringify({ text: `"${'['.repeat(5_000)}` }), false],
    ['brackets behind a text that ends in a backslash', `["\\\\",${'['.repeat(501)}${']'.repeat(501)}]`, true],
  ])('%s', (_, json, isDeep) => {
    expect(JSON.parse(json)).toBeDefined();
    expect(isDeeperThan(maxJsonDepth, json)).toBe(isDeep);
  });
});
