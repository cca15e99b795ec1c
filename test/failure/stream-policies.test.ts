import { DefaultDeadLetterRecoveryPolicy, type StreamFailurePolicy, defineMessage } from '@whizbang/core';
import { z } from 'zod';
import { describe, expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { FlakyTransport, broken } from './flaky-transport.js';
import { Stage } from './service.js';

const soon = new DefaultDeadLetterRecoveryPolicy({
  policyByReason: new Map([
    [5, { name: 'Soon', maxRecoveryAttempts: 1, cooldownMs: 0, holdForReviewAfterExhaustion: true }],
  ]),
});
const later = new DefaultDeadLetterRecoveryPolicy();

const numbered = (streamFailurePolicy?: StreamFailurePolicy) =>
  defineMessage('numbered', {
    schema: z.object({ stream: z.string(), n: z.number() }),
    destination: 'numbers',
    stream: (message) => message.stream,
    ...(streamFailurePolicy === undefined ? {} : { streamFailurePolicy }),
  });

/** The two sides on which a message can fail: its handler, or its way to the broker. */
const sides = ['dispatcher', 'publisher'] as const;

async function failing(
  side: (typeof sides)[number],
  policy: StreamFailurePolicy | undefined,
  { cap = 3, recovery = later }: { cap?: number | null; recovery?: DefaultDeadLetterRecoveryPolicy } = {},
) {
  const stage = await Stage.open();
  const Numbered = numbered(policy);
  const handled: number[] = [];
  const attempts: string[] = [];
  const state = { fixed: false };
  const fails = (n: number) => n === 0 && !state.fixed;
  const transport = new FlakyTransport(stage.brokerName, (message) => {
    const { n } = JSON.parse(message.body.toString()) as { n: number };
    return side === 'publisher' && fails(n) ? broken : undefined;
  });
  const whizbang = await stage.service({
    broker: transport,
    messages: [Numbered],
    dispatcher: { maxInboxAttempts: cap, retainCompleted: true },
    publisher: { maxOutboxAttempts: cap, retainCompleted: true },
    deadLetters: { policy: recovery },
  });
  whizbang.handle(Numbered, ({ n }, { attempt }) => {
    attempts.push(`${n} for the ${attempt}. time`);
    if (side === 'dispatcher' && fails(n)) throw new Error('not yet');
    handled.push(n);
  });
  const publish = async (...numbers: number[]) => {
    for (const n of numbers) await whizbang.publishNow(Numbered, { stream: 'one', n });
  };
  return { stage, whizbang, handled, attempts, state, publish, transport, Numbered };
}

describe.each(sides)('a message that fails in the %s', (side) => {
  const table = side === 'publisher' ? 'wh_outbox' : 'wh_inbox';

  test('blocks its stream by default until it succeeds, those in hand and those stored later', async () => {
    const { stage, whizbang, handled, attempts, state, publish } = await failing(side, undefined, { cap: null });
    await publish(0, 1, 2);
    await whizbang.start();
    await waitFor(() => stage.count(table, `status & 32768 <> 0 and attempts >= 1`), { message: 'the first failure' });
    await publish(3);
    state.fixed = true;
    await waitFor(() => handled.length === 4, { message: 'all four' });
    expect(handled).toEqual([0, 1, 2, 3]);
    expect(attempts.slice(-3)).toEqual(['1 for the 1. time', '2 for the 1. time', '3 for the 1. time']);
    await stage.waitForEmpty();
    const spent = await stage.query(
      `select distinct attempts from whizbang.${table} where (event_data ->> 'n')::integer > 0`,
    );
    expect(spent).toEqual([{ attempts: 1 }]);
  });

  test('lets its stream go on, in order, once it is dead', async () => {
    const { stage, whizbang, handled, publish } = await failing(side, 'block');
    await publish(0, 1, 2);
    await whizbang.start();
    await stage.waitForDead(1);
    await publish(3);
    await waitFor(() => handled.length === 3, { message: 'those behind it' });
    expect(handled).toEqual([1, 2, 3]);
    expect(await stage.dead()).toMatchObject([
      { source_table: table, n: 0, failure_reason: 5, attempts_when_dlq: 3, parks_stream: false },
    ]);
  });

  test('under continue is passed while it waits', async () => {
    const { whizbang, handled, state, publish } = await failing(side, 'continue', { cap: null });
    await publish(0, 1, 2);
    await whizbang.start();
    await waitFor(() => handled.length === 2, { message: 'those behind it' });
    await publish(3);
    await waitFor(() => handled.length === 3, { message: 'the one stored later' });
    expect(handled).toEqual([1, 2, 3]);
    state.fixed = true;
    await waitFor(() => handled.length === 4, { message: 'itself' });
    expect(handled).toEqual([1, 2, 3, 0]);
  });

  test('under park takes the rest along untried, and all come back together in their order', async () => {
    const { stage, whizbang, handled, attempts, state, publish } = await failing(side, 'park');
    await publish(0, 1, 2);
    await whizbang.start();
    await stage.waitForDead(3);
    await publish(3);
    expect(await stage.waitForDead(4)).toMatchObject([
      { n: 0, attempts_when_dlq: 3, failure_reason: 5, parks_stream: true },
      { n: 1, attempts_when_dlq: 0, failure_reason: 5, parks_stream: true },
      { n: 2, attempts_when_dlq: 0, failure_reason: 5, parks_stream: true },
      { n: 3, attempts_when_dlq: 0, failure_reason: 5, parks_stream: true },
    ]);
    expect(handled).toEqual([]);
    expect(attempts.filter((line) => !line.startsWith('0'))).toEqual([]);

    state.fixed = true;
    const [head] = (await whizbang.deadLetters.list()).entries.toReversed();
    // An operator brings the first back; the others of its stream come along.
    await whizbang.deadLetters.retry(head?.deadLetterId ?? '', 'ann');
    await waitFor(() => handled.length === 4, { message: 'the whole stream' });
    expect(handled).toEqual([0, 1, 2, 3]);
    await publish(4);
    await waitFor(() => handled.length === 5, { message: 'the stream as before' });
    expect(await stage.dead()).toEqual([]);
  });

  test('under park follows its policy by itself, and a stream that stays dead stays in order', async () => {
    const { stage, whizbang, handled, publish } = await failing(side, 'park', { recovery: soon });
    await publish(0, 1, 2);
    await whizbang.start();
    // The head comes back once, dies again, and is held; those behind it wait for it, with a time of their own, so that
    // the worker is not at them again and again.
    await waitFor(
      async () => {
        const [head, ...behind] = await stage.dead(
          `recovery_status = 2 or next_recovery_at > now() + interval '5 minutes'`,
        );
        return head?.['n'] === 0 && head['recovery_attempts'] === 1 && behind.length === 2;
      },
      { message: 'the head held for review and the rest scheduled', timeoutMs: 20_000 },
    );
    expect(handled).toEqual([]);
  });

  test.each([
    ['block', [1, 2], [0]],
    ['continue', [1, 2], [0]],
    ['park', [], [0, 1, 2]],
  ] as const)(
    'under %s and claimed past a cap that has been lowered is given up untried',
    async (policy, goOn, dead) => {
      const { stage, whizbang, handled, attempts, publish } = await failing(side, policy);
      await publish(0, 1, 2);
      if (side === 'dispatcher') {
        // Into the inbox without the dispatcher at work.
        await stage.query(
          `with gone as (delete from whizbang.wh_outbox returning *), stored as (
           select array_agg(message_id order by sequence) as ids, array_agg(message_type::text) as types,
                  array_agg(destination::text) as destinations, array_agg(event_data::text order by sequence) as bodies,
                  array_agg(metadata::text) as metadata, array_agg(stream_id) as streams from gone)
         select whizbang.store_inbox_messages(ids, types, types, destinations, bodies, metadata, streams) from stored`,
        );
      }
      await stage.query(
        `update whizbang.${table} set attempts = 7, status = 32769, error = 'as before', failure_reason = 2, scheduled_for = now()
       where (event_data ->> 'n')::integer = 0`,
      );
      await whizbang.start();
      expect(await stage.waitForDead(dead.length)).toMatchObject(
        dead.map((n) =>
          n === 0
            ? { n, failure_reason: 5, last_failure_reason: 2, error_text: 'as before', attempts_when_dlq: 7 }
            : { n, failure_reason: 5, attempts_when_dlq: 0 },
        ),
      );
      await waitFor(() => handled.length === goOn.length, { message: 'the others' });
      expect(handled).toEqual(goOn);
      expect(attempts.filter((line) => line.startsWith('0'))).toEqual([]);
    },
  );
});

test('what is too large for the broker is dead at once, and nothing else is', async () => {
  const stage = await Stage.open();
  const Numbered = numbered();
  const whizbang = await stage.service({ messages: [Numbered], brokerOptions: { maxMessageBytes: 60 } });
  whizbang.handle(Numbered, () => undefined);
  await whizbang.publishNow(Numbered, { stream: 'x'.repeat(100), n: 0 });
  await whizbang.publishNow(Numbered, { stream: 'y', n: 1 });
  await whizbang.start();
  expect(await stage.waitForDead(1)).toMatchObject([
    { source_table: 'wh_outbox', failure_reason: 12, last_failure_reason: 12, attempts_when_dlq: 1 },
  ]);
  await stage.waitForEmpty();
});
