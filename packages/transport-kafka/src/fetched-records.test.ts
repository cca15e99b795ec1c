import { expect, test } from 'vitest';
import { recordsOf } from './fetched-records.js';
import type { FetchedRecord } from './kafka-broker.js';

type Context = Partial<NonNullable<FetchedRecord['batchContext']>>;

function at(offset: number, context: Context = {}, control?: 'commit' | 'abort'): FetchedRecord {
  const type = control === 'abort' ? 0 : 1;
  return {
    offset: String(offset),
    timestamp: '0',
    key: control === undefined ? null : Buffer.of(0, 0, 0, type),
    value: null,
    headers: {},
    isControlRecord: control !== undefined,
    batchContext: {
      firstOffset: String(offset),
      lastOffsetDelta: 0,
      producerId: '-1',
      inTransaction: false,
      ...context,
    },
  };
}

const read = (
  position: bigint,
  messages: FetchedRecord[],
  aborted: { producerId: string; firstOffset: string }[] = [],
) => {
  const fetched = { partition: 0, highWatermark: '99', abortedTransactions: aborted, messages };
  const { records, next } = recordsOf(fetched, position);
  return [records.map(({ offset }) => Number(offset)), Number(next)];
};

test('records before the position were asked for by nobody', () => {
  expect(read(2n, [at(0), at(1), at(2), at(3)])).toEqual([[2, 3], 4]);
});

test('the end of a batch counts, though its last records are gone', () => {
  expect(read(0n, [at(0, { firstOffset: '0', lastOffsetDelta: 9 })])).toEqual([[0], 10]);
});

test('what a transaction wrote before it was aborted does not count, what others wrote meanwhile does', () => {
  const a = { producerId: 'a', inTransaction: true };
  const b = { producerId: 'b', inTransaction: true };
  const messages = [
    at(0, a),
    at(1, b),
    at(2),
    at(3, a),
    at(4, a, 'abort'),
    at(5, b, 'commit'),
    at(6, a),
    at(7, a, 'commit'),
  ];
  expect(read(0n, messages, [{ producerId: 'a', firstOffset: '0' }])).toEqual([[1, 2, 6], 8]);
});

test('nothing but markers moves the position all the same', () => {
  expect(read(4n, [at(4, {}, 'commit')])).toEqual([[], 5]);
});
