import { randomUUID } from 'node:crypto';

import {
  type DeadLetterRecoveryPolicy,
  DefaultDeadLetterRecoveryPolicy,
  PermanentError,
  type Whizbang,
  defineMessage,
} from '@whizbang/core';
import { createInProcessTransport } from '@whizbang/core/testing';
import { z } from 'zod';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { Stage } from './service.js';

const Numbered = defineMessage('numbered', { schema: z.object({ n: z.number() }), destination: 'numbers' });

/** Everything comes back at once, so often. */
const atOnce = (maxRecoveryAttempts: number): DeadLetterRecoveryPolicy => {
  const policy = { name: 'AtOnce', maxRecoveryAttempts, cooldownMs: 0, holdForReviewAfterExhaustion: true };
  return {
    getPolicy: () => policy,
    getStreamMode: () => 'PerMessage',
    shouldRecover: () => true,
  };
};

const sum = (services: readonly Whizbang[], name: keyof Whizbang['deadLetterCounters']) =>
  services.reduce((total, one) => total + one.deadLetterCounters[name], 0);

test('a dead letter wakes the sleeping worker within half a second, long before its next look', async () => {
  const stage = await Stage.open();
  const whizbang = await stage.service({
    messages: [Numbered],
    deadLetters: { policy: atOnce(1) },
    wakeups: { safetyPollMs: 60_000 },
  });
  const tries = new Map<number, number>();
  whizbang.handle(Numbered, ({ n }) => {
    tries.set(n, (tries.get(n) ?? 0) + 1);
    if (tries.get(n) === 1) throw new PermanentError('once');
  });
  await whizbang.start();
  const delays: number[] = [];
  for (let n = 0; n < 3; n += 1) {
    const [before] = await waitFor(
      async () => {
        const rows = await stage.query<{ count: number }>(
          `select count(*)::integer as count from whizbang.wh_doorbells where channel = 'deadletter'`,
        );
        return rows[0]?.count === 1 && rows;
      },
      { message: 'the worker to sleep', timeoutMs: 20_000 },
    );
    expect(before?.count).toBe(1);
    await whizbang.publishNow(Numbered, { n });
    await waitFor(() => tries.get(n) === 2, { message: 'its second life' });
    const [row] = await stage.query<{ ms: number }>(
      `select extract(epoch from last_recovery_at - dead_lettered_at)::float8 * 1000 as ms
       from whizbang.wh_dead_letters order by dead_lettered_at desc limit 1`,
    );
    delays.push(row?.ms ?? Infinity);
  }
  // The quickest of three: the machine may be busy, and a look that only the interval brings takes ten minutes.
  expect(Math.min(...delays)).toBeLessThan(500);
  await stage.waitForEmpty();
});

test('the regular look comes by itself, and finds what nobody was notified of', async () => {
  const stage = await Stage.open();
  const scanIntervalMs = 2_000;
  const whizbang = await stage.service({
    messages: [Numbered],
    deadLetters: { policy: atOnce(1), scanIntervalMinutes: scanIntervalMs / 60_000 },
  });
  const handled: number[] = [];
  whizbang.handle(Numbered, ({ n }) => void handled.push(n));
  await storeDead(stage, [1]);
  await stage.query('update whizbang.wh_dead_letters set operator_disposition = 2');
  const notified = await stage.notifications('deadletter');
  await whizbang.start();
  // Two looks with the whole interval between them: the worker sleeps, and nothing but the interval has woken it.
  let [seen, seenAt] = [-1, 0];
  await waitFor(
    () => {
      const { totalScans } = whizbang.deadLetterCounters;
      if (totalScans === seen) return false;
      const [before, now] = [seenAt, performance.now()];
      [seen, seenAt] = [totalScans, now];
      return before > 0 && now - before > 0.9 * scanIntervalMs;
    },
    { message: 'a look that only the interval brought', timeoutMs: 30_000, intervalMs: 10 },
  );
  expect(handled).toEqual([]);

  notified.length = 0;
  // Released by hand: no call of the library's, which would ring.
  await stage.query('update whizbang.wh_dead_letters set operator_disposition = 0');
  await waitFor(() => handled.length === 1, { message: 'it to be handled', timeoutMs: 5 * scanIntervalMs });
  expect(notified).toEqual([]);
  // It was the next look, in its turn.
  expect(performance.now() - seenAt).toBeGreaterThan(0.9 * scanIntervalMs);
});

test('three instances bring each dead letter back once', async () => {
  const stage = await Stage.open();
  const handled: number[] = [];
  const services: Whizbang[] = [];
  for (let index = 0; index < 3; index += 1) {
    const whizbang = await stage.service({
      messages: [Numbered],
      deadLetters: { policy: atOnce(5), scanBatchSize: 7 },
    });
    whizbang.handle(Numbered, ({ n }) => void handled.push(n));
    services.push(whizbang);
  }
  const numbers = Array.from({ length: 30 }, (_, n) => n);
  await storeDead(stage, numbers);
  await Promise.all(services.map((one) => one.start()));
  await waitFor(() => handled.length >= 30, { message: 'all of them', timeoutMs: 30_000 });
  await stage.waitForEmpty();
  expect(handled.toSorted((a, b) => a - b)).toEqual(numbers);
  expect(await stage.count('wh_dead_letters', 'recovery_status = 3 and recovery_attempts = 1')).toBe(30);
  expect(sum(services, 'totalRecovered')).toBe(30);
});

test('a new generation is one try for each dead letter, whichever of three instances starts first', async () => {
  const stage = await Stage.open();
  const old = await stage.service({ messages: [Numbered], generation: 'build-1' });
  old.handle(Numbered, () => {
    throw new PermanentError('invalid', { reason: 4 });
  });
  for (let n = 0; n < 5; n += 1) await old.publishNow(Numbered, { n });
  await old.start();
  await stage.waitForDead(5, 'recovery_status = 2');
  const { entries } = await old.deadLetters.list();
  await old.deadLetters.hold(entries[0]?.deadLetterId ?? '', 'ann');
  await old.deadLetters.giveUp(entries[1]?.deadLetterId ?? '', 'ann');
  await old.stop();

  const tried: number[] = [];
  const services: Whizbang[] = [];
  for (let index = 0; index < 3; index += 1) {
    const whizbang = await stage.service({ messages: [Numbered], generation: 'build-2' });
    whizbang.handle(Numbered, ({ n }) => {
      tried.push(n);
      throw new PermanentError('still invalid', { reason: 4 });
    });
    services.push(whizbang);
  }
  await Promise.all(services.map((one) => one.start()));
  await stage.waitForDead(3, 'recovery_status = 2 and recovery_attempts = 1');
  expect(tried).toHaveLength(3);
  expect(sum(services, 'totalGenerationReplays')).toBe(3);
  // The same build again, as after a restart, changes nothing.
  await Promise.all(services.map((one) => one.stop()));
  const again = await stage.service({ messages: [Numbered], generation: 'build-2' });
  again.handle(Numbered, ({ n }) => void tried.push(n));
  await again.start();
  await waitFor(() => again.deadLetterCounters.totalScans > 0, { message: 'a look', timeoutMs: 20_000 });
  expect(again.deadLetterCounters.totalGenerationReplays).toBe(0);
  expect(tried).toHaveLength(3);
});

test('enableGenerationReplay false: a new generation changes nothing', async () => {
  const stage = await Stage.open();
  await stage.query(
    `select whizbang.store_outbox_messages('{"messageType":"numbered","destination":"numbers","payload":{}}'::json)`,
  );
  await stage.query(
    `select whizbang.move_to_dead_letters('wh_outbox', null, json_build_array(json_build_object('messageId', message_id, 'reason', 4))::jsonb, 'build-1') from whizbang.wh_outbox`,
  );
  const whizbang = await stage.service({
    messages: [Numbered],
    generation: 'build-2',
    deadLetters: { enableGenerationReplay: false },
  });
  await whizbang.start();
  await waitFor(() => whizbang.deadLetterCounters.totalHeld === 1, { message: 'it to be held', timeoutMs: 20_000 });
  expect(await stage.dead()).toMatchObject([{ recovery_status: 2, recovery_attempts: 0 }]);
});

test('enabled false: dead letters are kept, and nothing looks at them', async () => {
  const stage = await Stage.open();
  const whizbang = await stage.service({ messages: [Numbered], deadLetters: { enabled: false, policy: atOnce(5) } });
  const handled: number[] = [];
  whizbang.handle(Numbered, ({ n }) => {
    if (n === 0) throw new PermanentError('never');
    handled.push(n);
  });
  await whizbang.publishNow(Numbered, { n: 0 });
  await whizbang.start();
  await stage.waitForDead(1);
  await whizbang.deadLetters.scanNow();
  // Time enough for a whole round of other work.
  await whizbang.publishNow(Numbered, { n: 1 });
  await waitFor(() => handled.length === 1, { message: 'the next message' });
  expect(await stage.dead()).toMatchObject([{ recovery_status: 0, recovery_attempts: 0 }]);
  expect(whizbang.deadLetterCounters).toEqual({
    totalScans: 0,
    totalRecovered: 0,
    totalHeld: 0,
    totalPermanentlyFailed: 0,
    totalGenerationReplays: 0,
  });
});

test('a cooldown that ends wakes the worker, without a ring', async () => {
  const stage = await Stage.open();
  const line = { name: 'Short', maxRecoveryAttempts: 1, cooldownMs: 1_500, holdForReviewAfterExhaustion: true };
  const whizbang = await stage.service({
    messages: [Numbered],
    deadLetters: { policy: new DefaultDeadLetterRecoveryPolicy({ policyByReason: new Map([[99, line]]) }) },
    wakeups: { safetyPollMs: 60_000 },
  });
  const tries: number[] = [];
  whizbang.handle(Numbered, ({ n }) => {
    tries.push(n);
    throw new PermanentError('always');
  });
  await whizbang.publishNow(Numbered, { n: 0 });
  await whizbang.start();
  await stage.waitForDead(1, 'recovery_status = 2');
  expect(tries).toHaveLength(2);
  const [row] = await stage.query<{ waited: number; attempts: number }>(
    `select extract(epoch from dead_lettered_at - source_created_at)::float8 as waited, recovery_attempts as attempts from whizbang.wh_dead_letters`,
  );
  expect(row?.attempts).toBe(1);
  expect(row?.waited).toBeGreaterThan(1.5);
});

test('a delivery that cannot be read is kept with its bytes, acknowledged, and held', async () => {
  const stage = await Stage.open();
  const whizbang = await stage.service({ messages: [Numbered] });
  const handled: number[] = [];
  whizbang.handle(Numbered, ({ n }) => void handled.push(n));
  await whizbang.start();
  const stranger = createInProcessTransport(`memory:${stage.brokerName}`);
  const silent = () => undefined;
  await stranger.connect({
    logger: { debug: silent, info: silent, warn: silent, error: silent },
    onReadyChange: silent,
  });
  try {
    const body = Buffer.from([0xff, 0xfe, 0x00, 0x7b]);
    await waitFor(
      async () => {
        const [outcome] = await stranger.publish(
          [
            {
              messageId: randomUUID(),
              destination: 'numbers',
              messageType: 'numbered',
              streamId: null,
              attributes: { type: 'numbered', id: 'x', source: '/stranger', specversion: '1.0' },
              headers: { trace: 'kept' },
              body,
            },
          ],
          new AbortController().signal,
        );
        return outcome?.kind === 'confirmed';
      },
      { message: 'the subscription' },
    );
    await whizbang.publishNow(Numbered, { n: 1 });
    await waitFor(() => handled.length === 1, { message: 'the message behind it' });
    await stage.waitForDead(1, 'recovery_status = 2 and raw_body is not null');
    const [entry] = (await whizbang.deadLetters.list()).entries;
    const whole = await whizbang.deadLetters.show(entry?.deadLetterId ?? '');
    expect(whole).toMatchObject({ failureReason: 3, recoverable: false, eventData: null, attempts: 0 });
    expect(whole?.rawBody).toEqual(body);
    expect(JSON.stringify(whole?.metadata)).toContain('kept');
    expect(stage.broker.depth('shipping')).toBe(0);
  } finally {
    await stranger.close();
  }
});

/** Received messages that have died before anybody handled them. */
async function storeDead(stage: Stage, numbers: readonly number[]): Promise<void> {
  const ids = numbers.map(() => randomUUID());
  await stage.query('select whizbang.store_inbox_messages($1::uuid[], $2, $3, $4, $5, $6, $7::uuid[])', [
    ids,
    ids.map(() => 'shipping/numbered'),
    ids.map(() => 'numbered'),
    ids.map(() => 'numbers'),
    numbers.map((n) => JSON.stringify({ n })),
    ids.map(() => '{}'),
    ids.map(() => null),
  ]);
  await stage.query(`select whizbang.move_to_dead_letters('wh_inbox', null, $1, 'build-1')`, [
    JSON.stringify(ids.map((messageId) => ({ messageId, reason: 5 }))),
  ]);
}
