import { defineMessage } from '@whizbang/core';
import { z } from 'zod';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { FlakyTransport, broken } from './flaky-transport.js';
import { Stage } from './service.js';

const Step = defineMessage('step', {
  schema: z.object({ stream: z.number(), n: z.number() }),
  destination: 'steps',
  stream: (step) => `stream ${step.stream}`,
});

const streams = 200;
const perStream = 10;
const failures = 3;

/** The same choice in every run: a tenth of all steps, and which they are looks like chance. */
function isUnlucky(stream: number, n: number, salt: number): boolean {
  let hash = (stream * perStream + n + 1) * 2654435761 + salt;
  hash ^= hash >>> 15;
  return Math.imul(hash, 2246822519) >>> 0 < 2 ** 32 / 10;
}

test('200 streams, every tenth message failing three times on each side: order is kept and attempts are the real tries', async () => {
  const stage = await Stage.open();
  const arrived = new Map<number, number[]>();
  const transport = new FlakyTransport(stage.brokerName, (message, tries) => {
    const { stream, n } = JSON.parse(message.body.toString()) as { stream: number; n: number };
    if (isUnlucky(stream, n, 1) && tries <= failures) return broken;
    arrived.set(stream, [...(arrived.get(stream) ?? []), n]);
    return undefined;
  });
  const whizbang = await stage.service({
    broker: transport,
    messages: [Step],
    publisher: { retainCompleted: true },
    dispatcher: { retainCompleted: true },
  });
  const handled = new Map<number, number[]>();
  const tries = new Map<string, number[]>();
  whizbang.handle(Step, ({ stream, n }, { messageId, attempt }) => {
    const earlier = tries.get(messageId) ?? [];
    tries.set(messageId, [...earlier, attempt]);
    if (isUnlucky(stream, n, 2) && earlier.length < failures) throw new Error(`step ${n} of stream ${stream} fails`);
    handled.set(stream, [...(handled.get(stream) ?? []), n]);
  });
  const client = await stage.pool.connect();
  await client.query('begin');
  for (let n = 0; n < perStream; n += 1) {
    for (let stream = 0; stream < streams; stream += 1) await whizbang.publish(client, Step, { stream, n });
  }
  await client.query('commit');
  client.release();
  await whizbang.start();
  await waitFor(async () => (await stage.count('wh_inbox', 'processed_at is not null')) === streams * perStream, {
    message: 'all to be handled',
    timeoutMs: 90_000,
    intervalMs: 200,
  });

  const inOrder = Array.from({ length: perStream }, (_, n) => n);
  for (let stream = 0; stream < streams; stream += 1) {
    expect([stream, arrived.get(stream)]).toEqual([stream, inOrder]);
    expect([stream, handled.get(stream)]).toEqual([stream, inOrder]);
  }
  await waitFor(async () => (await stage.count('wh_outbox', 'processed_at is null')) === 0, {
    message: 'the last settlement',
  });
  const rows = await stage.query<{ side: string; id: string; attempts: number; unlucky: boolean }>(
    `select 'broker' as side, message_id as id, attempts from whizbang.wh_outbox
     union all select 'handler', message_id, attempts from whizbang.wh_inbox`,
  );
  expect(rows).toHaveLength(2 * streams * perStream);
  const wrong = rows.filter(
    ({ side, id, attempts }) => attempts !== (side === 'broker' ? transport.tries.get(id) : tries.get(id)?.length),
  );
  expect(wrong).toEqual([]);
  // The handler was told which try it was.
  for (const told of tries.values()) expect(told).toEqual(told.map((_, index) => index + 1));
  // Once, or three failures and a success; and about a tenth of them.
  for (const side of ['broker', 'handler']) {
    const tried = rows.filter((row) => row.side === side).map((row) => row.attempts);
    expect([side, new Set(tried)]).toEqual([side, new Set([1, failures + 1])]);
    const share = tried.filter((attempts) => attempts > 1).length / tried.length;
    expect([side, share > 0.05 && share < 0.15]).toEqual([side, true]);
  }
  expect(await stage.count('wh_dead_letters')).toBe(0);
}, 150_000);

test.each(['handler', 'broker'])(
  'no healthy stream waits for a sick one: in the %s the sick fail until the healthy are done',
  async (side) => {
    const stage = await Stage.open();
    const sick = (stream: number) => stream % 10 === 0;
    const healthy = { left: 45 * 4 };
    const cured = () => healthy.left === 0;
    const transport = new FlakyTransport(stage.brokerName, (message) => {
      const { stream } = JSON.parse(message.body.toString()) as { stream: number };
      return side === 'broker' && sick(stream) && !cured() ? broken : undefined;
    });
    const whizbang = await stage.service({
      broker: transport,
      messages: [Step],
      publisher: { maxOutboxAttempts: null },
      dispatcher: { maxInboxAttempts: null },
    });
    const order = new Map<number, number[]>();
    whizbang.handle(Step, ({ stream, n }) => {
      if (side === 'handler' && sick(stream) && !cured()) throw new Error('sick');
      order.set(stream, [...(order.get(stream) ?? []), n]);
      if (!sick(stream)) healthy.left -= 1;
    });
    for (let n = 0; n < 4; n += 1) {
      for (let stream = 0; stream < 50; stream += 1) await whizbang.publishNow(Step, { stream, n });
    }
    await whizbang.start();
    await waitFor(cured, { message: 'the healthy streams, while the sick ones fail', timeoutMs: 30_000 });
    await stage.waitForEmpty();
    expect([...order.values()]).toEqual(Array.from({ length: 50 }, () => [0, 1, 2, 3]));
  },
);
