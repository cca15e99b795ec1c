import { type MessageContext, PartialFailure, PermanentError, RetryLater, defineMessage } from '@whizbang/core';
import { z } from 'zod';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { FlakyTransport } from './flaky-transport.js';
import { Stage } from './service.js';

const Numbered = defineMessage('numbered', { schema: z.object({ n: z.number() }), destination: 'numbers' });

class Hostile extends Error {
  override get message(): string {
    throw new Error('no message');
  }
  override get stack(): string {
    throw new Error('no stack');
  }
}

const cyclic = new Error('round');
cyclic.cause = cyclic;

const thrown: [string, unknown][] = [
  ['NUL', new Error('a\0b')],
  ['5 MB', new Error('x'.repeat(5_000_000))],
  ['cycle', cyclic],
  ['undefined', undefined],
  ['symbol', Symbol('s')],
  ['toString', { toString: () => expect.fail('no text') }],
  ['members', new Hostile()],
  ['surrogate', new Error('x\uD800')],
  ['password', new Error('cannot reach postgres://app:hunter2@db/orders')],
];

test('whatever a handler throws is recorded, bounded and masked, and stops nobody', async () => {
  const stage = await Stage.open();
  const whizbang = await stage.service({ messages: [Numbered], dispatcher: { maxInboxAttempts: 2 } });
  const handled: number[] = [];
  whizbang.handle(Numbered, ({ n }) => {
    if (n < thrown.length) throw thrown[n]?.[1];
    handled.push(n);
  });
  for (let n = 0; n <= thrown.length; n += 1) await whizbang.publishNow(Numbered, { n });
  await whizbang.start();
  await stage.waitForDead(thrown.length);
  await waitFor(() => handled.length === 1, { message: 'the one that does not fail' });
  const dead = await stage.dead();
  expect(dead.map((row) => row['attempts_when_dlq'])).toEqual(thrown.map(() => 2));
  const recorded = thrown.map(([what], n) => {
    const letter = dead.find((row) => row.n === n);
    const length = letter?.error_text?.length ?? 0;
    return [what, length > 0 && length <= 4_000, /^[0-9a-f]{16}$/.test(String(letter?.['error_fingerprint']))];
  });
  expect(recorded).toEqual(thrown.map(([what]) => [what, true, true]));
  expect(dead.find((row) => row.n === thrown.length - 1)?.['error_text']).toContain('postgres://app:***@db/orders');
  expect(JSON.stringify([dead, stage.log])).not.toContain('hunter2');
});

test('a transport that throws or fails with anything is recorded the same way', async () => {
  const stage = await Stage.open();
  const error = new Error(`amqp://guest:hunter2@broker \0 ${'y'.repeat(5_000_000)}`);
  const transport = new FlakyTransport(stage.brokerName, () => ({
    kind: 'failed',
    reason: 2,
    retryable: true,
    error,
    retryAfterMs: 1e300,
  }));
  const whizbang = await stage.service({ broker: transport, messages: [Numbered] });
  await whizbang.publishNow(Numbered, { n: 0 });
  await whizbang.start();
  const [row] = await waitFor(
    async () => {
      const rows = await stage.query(
        `select error, attempts, scheduled_for > now() + interval '29 days' as late from whizbang.wh_outbox where error is not null`,
      );
      return rows.length === 1 && rows;
    },
    { message: 'the failure' },
  );
  expect(row).toMatchObject({ attempts: 1, late: true });
  expect(String(row?.['error']).length).toBeLessThanOrEqual(4_000);
  expect(JSON.stringify([row, stage.log])).not.toContain('hunter2');
});

async function handledBy(handler: (n: number, context: MessageContext) => unknown, options = {}) {
  const stage = await Stage.open();
  const whizbang = await stage.service({ messages: [Numbered], dispatcher: { retainCompleted: true }, ...options });
  whizbang.handle(Numbered, ({ n }, context) => handler(n, context) as Promise<void>);
  await whizbang.publishNow(Numbered, { n: 0 });
  await whizbang.start();
  return { stage, whizbang };
}

test('PermanentError goes to the dead letters at once with its reason, unless the option is off', async () => {
  const { stage } = await handledBy(() => {
    throw new PermanentError('never', { reason: 4 });
  });
  expect(await stage.waitForDead(1)).toMatchObject([
    { failure_reason: 4, last_failure_reason: 4, attempts_when_dlq: 1, source_table: 'wh_inbox' },
  ]);

  const lenient = await handledBy(
    () => {
      throw new PermanentError('never', { reason: 4 });
    },
    { failures: { deadLetterPermanent: false }, dispatcher: { maxInboxAttempts: 2 } },
  );
  expect(await lenient.stage.waitForDead(1)).toMatchObject([
    { failure_reason: 5, last_failure_reason: 4, attempts_when_dlq: 2 },
  ]);
});

test('a payload that breaks the schema of the handler is dead at once, and so is one without a handler', async () => {
  const stage = await Stage.open();
  const Older = defineMessage('numbered', { schema: z.object({ n: z.number() }), destination: 'numbers' });
  const Newer = defineMessage('numbered', { schema: z.object({ n: z.number().max(5) }), destination: 'numbers' });
  const sender = await stage.service({ service: 'sender', messages: [Older], receiver: { enabled: false } });
  const whizbang = await stage.service({ messages: [Newer] });
  whizbang.handle(Newer, () => undefined);
  await whizbang.start();
  await sender.publishNow(Older, { n: 6 });
  await sender.start();
  const [letter] = await stage.waitForDead(1);
  expect(letter).toMatchObject({ failure_reason: 4, attempts_when_dlq: 1 });
  expect(letter?.['error_text']).toContain('n: Too big');
});

test('RetryLater is tried again when it says, as another try', async () => {
  const tries: number[] = [];
  const { stage } = await handledBy(
    (_, { attempt }) => {
      tries.push(attempt);
      if (attempt < 3) throw new RetryLater(10);
    },
    // The backoff alone would take longer than the test.
    { failures: { baseSeconds: 3_600, breaker: { enabled: true, failureThreshold: 1 } } },
  );
  await waitFor(() => tries.length === 3, { message: 'the third try' });
  await stage.waitForEmpty();
  expect(tries).toEqual([1, 2, 3]);
});

test('PartialFailure lets the next try see what is done, and the bits stay', async () => {
  const seen: number[] = [];
  const { stage } = await handledBy((_, { status, attempt }) => {
    seen.push(status);
    if (attempt === 1) throw new PartialFailure(8, 'charged, not shipped');
    if (attempt === 2) throw new Error('still not shipped');
  });
  await waitFor(() => seen.length === 3, { message: 'the third try' });
  expect(seen).toEqual([1, 1 | 8 | 32768, 1 | 8 | 32768]);
  await stage.waitForEmpty();
});

test('a handler that swallows an error of the database fails alone: its connection does not reach the next message', async () => {
  const stage = await Stage.open();
  // One handler at a time, so that the next message gets the connection of this one.
  const whizbang = await stage.service({
    messages: [Numbered],
    dispatcher: { concurrency: 1, maxInboxAttempts: 1 },
  });
  const handled: number[] = [];
  whizbang.handle(Numbered, async ({ n }, { tx }) => {
    if (n % 2 === 0) await tx.query('select 1 / 0').catch(() => undefined);
    handled.push(n);
  });
  for (let n = 0; n < 6; n += 1) await whizbang.publishNow(Numbered, { n });
  await whizbang.start();
  const dead = await stage.waitForDead(3);
  await stage.waitForEmpty();
  expect(dead.map((row) => row.n ?? -1).toSorted((a, b) => a - b)).toEqual([0, 2, 4]);
  expect(dead[0]?.['error_text']).toContain('current transaction is aborted');
});

test('a logger that throws stops nobody', async () => {
  const stage = await Stage.open();
  const broken = () => {
    throw new Error('the logger is broken');
  };
  const logger = { debug: broken, info: broken, warn: broken, error: broken };
  const service = await stage.service({ logger, dispatcher: { maxInboxAttempts: 2 } });
  const handled: number[] = [];
  const Logged = defineMessage('logged', { schema: z.object({ n: z.number() }), destination: 'logged' });
  service.handle(Logged, ({ n }) => {
    if (n === 0) throw new Error('it broke');
    handled.push(n);
  });
  await service.start();
  await service.publishNow(Logged, { n: 0 });
  await stage.waitForDead(1);
  await service.publishNow(Logged, { n: 1 });
  await stage.waitForEmpty();
  expect(handled).toEqual([1]);
});
