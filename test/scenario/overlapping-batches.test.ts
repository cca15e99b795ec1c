import { defineMessage, registerTransport } from '@whizbang/core';
import { createInProcessTransport } from '@whizbang/core/testing';
import type { OutgoingMessage, PublishOutcome } from '@whizbang/core/transport';
import { expect, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/wait-for.js';
import { inTransaction, migratedDatabase, testService } from './test-service.js';

const Counted = defineMessage('counts.counted', {
  destination: 'counts',
  schema: z.object({ stream: z.string(), number: z.number() }),
  stream: ({ stream }) => stream,
});

interface HeldCall {
  readonly numbersOf: ReadonlyMap<string, readonly number[]>;
  answer(outcome: PublishOutcome): void;
}

const calls: HeldCall[] = [];

// In-process, but each call of `publish` waits for the test.
registerTransport('held', () => {
  const transport = createInProcessTransport('memory:overlapping-batches');
  transport.publish = (batch: readonly OutgoingMessage[]) =>
    new Promise((resolve) => {
      const numbersOf = new Map<string, number[]>();
      for (const { body } of batch) {
        const { stream, number } = JSON.parse(body.toString()) as { stream: string; number: number };
        numbersOf.set(stream, [...(numbersOf.get(stream) ?? []), number]);
      }
      calls.push({ numbersOf, answer: (outcome) => resolve(batch.map(() => outcome)) });
    });
  return transport;
});

const called = (count: number) =>
  waitFor(() => calls.length >= count, { message: `${count} calls of publish`, timeoutMs: 30_000 });

test('batches overlap at the broker, a stream is in one of them at a time, and a failure stops what follows it', async () => {
  const { url, pool } = await migratedDatabase();
  const whizbang = await testService({
    database: url,
    broker: 'held:',
    publisher: { batchSize: 4 },
  });
  const streams = ['a', 'b', 'c', 'd', 'e', 'f'];
  // In the order a0 … f0 a1 … f1: the second batch of four would hold e0 f0 a1 b1.
  const numbered = [0, 1].flatMap((number) => streams.map((stream) => ({ stream, number })));
  await inTransaction(pool, (tx) => whizbang.publishMany(tx, Counted, numbered));
  await whizbang.start();

  await called(2);
  const [first, second] = calls;
  expect([...(first?.numbersOf ?? [])]).toEqual([
    ['a', [0]],
    ['b', [0]],
    ['c', [0]],
    ['d', [0]],
  ]);
  expect([...(second?.numbersOf ?? [])].map(([stream]) => stream)).toEqual(['e', 'f']);

  first?.answer({ kind: 'confirmed' });
  second?.answer({
    kind: 'failed',
    reason: 4,
    retryable: true,
    error: new Error('ordered by the test'),
  });
  await called(3);
  for (let index = 2; index < 12; index += 1) {
    await waitFor(() => calls.length > index || whizbang.counters.published === 8, {
      message: 'another call, or all that may go',
      timeoutMs: 30_000,
    });
    calls[index]?.answer({ kind: 'confirmed' });
  }
  const sent = calls.slice(2).flatMap(({ numbersOf }) => [...numbersOf]);
  expect(new Map(sent)).toEqual(new Map(['a', 'b', 'c', 'd'].map((stream) => [stream, [1]])));
  expect(sent).toHaveLength(4);
  const left = `select attempts, instance_id is not null as leased from whizbang.wh_outbox order by sequence`;
  await waitFor(async () => (await pool.query(left)).rows.every(({ leased }) => leased === false), {
    message: 'everything to be settled',
    timeoutMs: 30_000,
  });
  expect((await pool.query(left)).rows.map(({ attempts }) => Number(attempts))).toEqual([1, 1, 0, 0]);
});
