import { MessageFailureReason, defineMessage } from '@whizbang/core';
import { z } from 'zod';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { FlakyTransport, broken } from './flaky-transport.js';
import { Stage } from './service.js';

const schema = z.object({ n: z.number() });
const Sick = defineMessage('sick', { schema, destination: 'sick' });
const Well = defineMessage('well', { schema, destination: 'well' });
const hour = { baseSeconds: 3_600, maxFactor: 1 };

const numbers = (count: number, from = 0) => Array.from({ length: count }, (_, index) => from + index);

test('a destination that keeps failing is left alone: its messages spend nothing, and other destinations flow', async () => {
  const stage = await Stage.open();
  const transport = new FlakyTransport(stage.brokerName, ({ destination }) =>
    destination === 'sick' ? broken : undefined,
  );
  const whizbang = await stage.service({
    broker: transport,
    messages: [Sick, Well],
    failures: { ...hour, breaker: { initialCooldownMs: 3_600_000, maxCooldownMs: 3_600_000 } },
  });
  const handled: number[] = [];
  whizbang.handle(Well, ({ n }) => void handled.push(n));
  for (const n of numbers(5)) await whizbang.publishNow(Sick, { n });
  await whizbang.start();
  await waitFor(() => stage.log.some(({ message }) => message.startsWith('A breaker opened')), {
    message: 'the breaker',
  });
  for (const n of numbers(20, 100)) await whizbang.publishNow(n % 2 === 0 ? Sick : Well, { n });
  await waitFor(() => handled.length === 10, { message: 'the other destination' });
  await waitFor(async () => (await stage.count('wh_outbox', 'attempts = 0 and scheduled_for > now()')) === 10, {
    message: 'the sick ones to be put off',
  });
  expect(await stage.count('wh_outbox', 'attempts = 1 and failure_reason = 2')).toBe(5);
  expect(transport.tries.size).toBe(15);
});

test.each(['destination', 'message type'])(
  'a breaker of a %s lets one through at a time, and closes when that succeeds',
  async (side) => {
    const stage = await Stage.open();
    const state = { fixed: false };
    const transport = new FlakyTransport(stage.brokerName, () =>
      side === 'destination' && !state.fixed ? broken : undefined,
    );
    const tried: number[] = [];
    const whizbang = await stage.service({
      broker: transport,
      messages: [Sick],
      publisher: { retainCompleted: true },
      dispatcher: { retainCompleted: true },
      failures: { ...hour, breaker: { initialCooldownMs: 400, maxCooldownMs: 400 } },
    });
    const handled: number[] = [];
    whizbang.handle(Sick, ({ n }) => {
      tried.push(n);
      if (side === 'message type' && !state.fixed) throw new Error('sick');
      handled.push(n);
    });
    const table = side === 'destination' ? 'wh_outbox' : 'wh_inbox';
    for (const n of numbers(5)) await whizbang.publishNow(Sick, { n });
    await whizbang.start();
    await waitFor(() => stage.log.some(({ message }) => message.startsWith('A breaker opened')), {
      message: 'the breaker',
    });
    for (const n of numbers(20, 100)) await whizbang.publishNow(Sick, { n });
    await waitFor(async () => (await stage.count(table, `status & 32768 <> 0`)) >= 8, {
      message: 'three trials',
      timeoutMs: 20_000,
    });
    // A trial costs one message one attempt; nobody else pays.
    const tries = side === 'destination' ? transport.tries.size : tried.length;
    expect(await stage.count(table, 'attempts > 1')).toBe(0);
    expect(tries).toBeLessThan(25);
    state.fixed = true;
    await waitFor(async () => (await stage.count(table, 'processed_at is null and status & 32768 = 0')) === 0, {
      message: 'all that were not tried',
      timeoutMs: 20_000,
    });
    expect(stage.log.some(({ message }) => message.startsWith('A breaker closed'))).toBe(true);
    expect(await stage.count(table, 'attempts > 1')).toBe(0);
  },
);

const throttled = (retryAfterMs?: number) =>
  ({
    kind: 'failed',
    reason: MessageFailureReason.Throttled,
    retryable: true,
    error: new Error('slower, please'),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  }) as const;

test('a broker that asks for a slower pace gets pauses, and nothing is recorded', async () => {
  const stage = await Stage.open();
  const at: number[] = [];
  const transport = new FlakyTransport(stage.brokerName, (_, tries) => {
    at.push(performance.now());
    return tries <= 2 ? throttled(tries === 2 ? 1_200 : undefined) : undefined;
  });
  const whizbang = await stage.service({
    broker: transport,
    messages: [Well],
    publisher: { retainCompleted: true },
    receiver: { enabled: true },
  });
  whizbang.handle(Well, () => undefined);
  await whizbang.publishNow(Well, { n: 0 });
  await whizbang.start();
  await waitFor(() => stage.count('wh_outbox', 'published_at is not null'), {
    message: 'the message',
    timeoutMs: 20_000,
  });
  expect(await stage.query('select attempts, error, status from whizbang.wh_outbox')).toEqual([
    { attempts: 1, error: null, status: 5 },
  ]);
  expect(at).toHaveLength(3);
  const pauses = at.slice(1).map((time, index) => time - (at[index] ?? 0));
  expect(pauses[0]).toBeGreaterThanOrEqual(240);
  expect(pauses[1]).toBeGreaterThanOrEqual(1_190);
});

test('a broker that throttles for ever is a recorded failure after five pauses', async () => {
  const stage = await Stage.open();
  const transport = new FlakyTransport(stage.brokerName, () => throttled());
  const whizbang = await stage.service({ broker: transport, messages: [Well], failures: hour });
  const { messageId } = await whizbang.publishNow(Well, { n: 0 });
  await whizbang.start();
  await waitFor(() => stage.count('wh_outbox', 'failure_reason = 8'), { message: 'the failure', timeoutMs: 40_000 });
  expect(await stage.query('select attempts, status from whizbang.wh_outbox')).toEqual([
    { attempts: 1, status: 32769 },
  ]);
  expect(transport.tries.get(messageId)).toBe(6);
});

test('an outage of the broker spends no attempts, and what was in flight is given back', async () => {
  const stage = await Stage.open();
  const whizbang = await stage.service({ messages: [Well], publisher: { retainCompleted: true } });
  const handled: number[] = [];
  whizbang.handle(Well, ({ n }) => void handled.push(n));
  await whizbang.start();
  stage.broker.block();
  for (const n of numbers(20)) await whizbang.publishNow(Well, { n });
  await waitFor(() => stage.count('wh_outbox', 'instance_id is not null'), { message: 'messages in flight' });
  stage.broker.setAvailable(false);
  for (const n of numbers(20, 20)) await whizbang.publishNow(Well, { n });
  await waitFor(async () => (await stage.count('wh_outbox', 'attempts = 0 and instance_id is null')) === 40, {
    message: 'everything to be put down',
  });
  expect(await stage.count('wh_outbox', 'status & 32768 <> 0')).toBe(0);
  stage.broker.unblock();
  stage.broker.setAvailable(true);
  await waitFor(() => handled.length === 40, { message: 'the backlog' });
  await stage.waitForEmpty();
  expect(await stage.query('select distinct attempts from whizbang.wh_outbox')).toEqual([{ attempts: 1 }]);
  expect(await stage.count('wh_dead_letters')).toBe(0);
});
