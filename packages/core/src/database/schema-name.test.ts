import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { inSchema, schemaName, wakeChannel } from './schema-name.js';

test('a name is written as a quoted identifier and as a literal', () => {
  expect(schemaName('My-App')).toMatchObject({ prefix: '"My-App".', literal: `'My-App'` });
  expect(schemaName(`a"b'c`)).toMatchObject({ prefix: '"a""b\'c".', literal: `'a"b''c'` });
  expect(schemaName(String.raw`a\b`)).toMatchObject({ literal: String.raw`E'a\\b'` });
});

test.each(['', 'x'.repeat(64), 'ü'.repeat(32), 'a\0', 'a\nb', '$whizbang_body$'])('%j is no name', (name) => {
  expect(() => schemaName(name)).toThrow(/must have 1 to 63 bytes and no control characters/);
});

describe('a statement in another schema', () => {
  test('has its qualifiers and its literal replaced, and nothing else', () => {
    const sql = `select whizbang.f('whizbang'), 'whizbang x', mywhizbang.g() as $$ body $$`;
    expect(inSchema(sql, schemaName('My-App'))).toBe(
      `select "My-App".f('My-App'), 'whizbang x', mywhizbang.g() as $whizbang_body$ body $whizbang_body$`,
    );
  });

  test.each(['$$', '$1', '$&', `whizbang.`, `'whizbang'`])('is not replaced twice by a name like %s', (name) => {
    const schema = schemaName(name);
    expect(inSchema(`whizbang.t 'whizbang'`, schema)).toBe(`${schema.prefix}t ${schema.literal}`);
  });
});

test('the channels of two schemas differ, and fit whatever the name', () => {
  expect(wakeChannel('outbox', schemaName('a'))).not.toBe(wakeChannel('outbox', schemaName('b')));
  const long = schemaName('x'.repeat(63));
  const hash = createHash('md5').update(long.name).digest('hex');
  expect(wakeChannel('selftest', long)).toBe(`wh_selftest_${hash.slice(0, 16)}`);
  expect(wakeChannel('selftest', long).length).toBeLessThan(64);
});
