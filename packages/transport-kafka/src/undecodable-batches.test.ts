import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import type { FetchResponse } from './kafka-broker.js';
import { undecodableHeader, withUndecodableBatches } from './undecodable-batches.js';

const require = createRequire(import.meta.url);
const { RecordBatch } = require('kafkajs/src/protocol/recordBatch/v0') as {
  RecordBatch: (parts: object) => Promise<{ buffer: Buffer }>;
};
const record = require('kafkajs/src/protocol/recordBatch/record/v0') as (parts: object) => unknown;
const response = require('kafkajs/src/protocol/requests/fetch/v11/response') as {
  decode: (payload: Buffer) => Promise<unknown>;
  parse: (decoded: unknown) => Promise<unknown>;
};
const snappy = 2;

async function batch(firstOffset: number, count: number, compression = 0): Promise<Buffer> {
  const records = Array.from({ length: count }, (_, offsetDelta) =>
    record({ offsetDelta, key: null, value: Buffer.from(`${firstOffset + offsetDelta}`), headers: {} }),
  );
  const { buffer } = await RecordBatch({ firstOffset, lastOffsetDelta: count - 1, records });
  // The attributes; what follows is not compressed, but nobody gets as far as finding that out.
  buffer.writeInt16BE(compression, 21);
  return buffer;
}

function answer(...partitions: readonly (readonly Buffer[])[]): Buffer {
  const int32 = (value: number): Buffer => Buffer.from([value >> 24, value >> 16, value >> 8, value]);
  const topic = Buffer.from('orders');
  return Buffer.concat([
    Buffer.alloc(10),
    int32(1),
    Buffer.of(0, topic.length),
    topic,
    int32(partitions.length),
    ...partitions.flatMap((batches, partition) => [
      int32(partition),
      Buffer.alloc(26),
      int32(1),
      Buffer.alloc(16),
      int32(-1),
      int32(Buffer.concat(batches).length),
      ...batches,
    ]),
  ]);
}

async function received(payload: Buffer): Promise<string[][]> {
  const wire = withUndecodableBatches({ request: { apiName: 'Fetch', apiVersion: 11 }, response });
  const { responses } = (await wire.response.decode(payload)) as FetchResponse;
  return (responses[0]?.partitions ?? []).map(({ messages }) =>
    messages.map(({ offset, value, headers }) => {
      const reason = headers[undecodableHeader] as Buffer | undefined;
      return `${offset}:${(reason ?? value)?.toString()}`;
    }),
  );
}

test('a batch in an unknown compression becomes one record at its end; all others are as they were', async () => {
  const payload = answer(
    [await batch(0, 2), await batch(2, 300, snappy), await batch(302, 1)],
    [await batch(0, 1)],
    [],
  );
  await expect(response.decode(payload)).rejects.toThrow('Snappy');
  expect(await received(payload)).toEqual([
    ['0:0', '1:1', '301:Snappy compression not implemented', '302:302'],
    ['0:0'],
    [],
  ]);
});

test('its record holds the batch as it came', async () => {
  const bad = await batch(7, 3, snappy);
  const wire = withUndecodableBatches({ request: { apiName: 'Fetch', apiVersion: 11 }, response });
  const { responses } = (await wire.response.decode(answer([bad]))) as FetchResponse;
  expect(responses[0]?.partitions[0]?.messages[0]?.value).toEqual(bad);
});

test('a damaged batch does not stop those behind it', async () => {
  const damaged = await batch(0, 2);
  // The length of the first record.
  damaged.writeUInt8(0xff, 61);
  damaged.fill(0xff, 62, 70);
  const all = await received(answer([damaged, await batch(2, 1)]));
  expect(all[0]?.at(-1)).toBe('2:2');
  expect(all[0]?.[0]).toMatch(/^1:/);
});
