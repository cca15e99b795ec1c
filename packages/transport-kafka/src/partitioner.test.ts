import { expect, test } from 'vitest';
import { murmur2, partitionOf } from './partitioner.js';

// From the tests of Kafka's own Java client.
test.each([
  ['21', -973_932_308],
  ['foobar', -790_332_482],
  ['a-little-bit-long-string', -985_981_536],
  ['a-little-bit-longer-string', -1_486_304_829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58_897_971],
  ['abc', 479_470_107],
])('murmur2 of "%s" is what Java says', (key, hash) => {
  expect(murmur2(Buffer.from(key))).toBe(hash);
});

test('a negative hash has its sign bit cleared before it is divided, which is not its absolute value', () => {
  expect(partitionOf(Buffer.from('21'), 7)).toBe((-973_932_308 & 0x7fffffff) % 7);
  expect(partitionOf(Buffer.from('21'), 7)).not.toBe(973_932_308 % 7);
});
