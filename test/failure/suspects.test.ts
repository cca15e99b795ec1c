import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

import { defineMessage } from '@whizbang/core';
import { expect, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/wait-for.js';
import { Stage } from './service.js';
import { streamOf } from './work-rows.js';

const Numbered = defineMessage('numbered', { schema: z.object({ n: z.number() }), destination: 'numbers' });

/** Rows 0, 1, ... of the inbox, each in the stream named, or in none. */
async function store(stage: Stage, streams: readonly (string | null)[]): Promise<void> {
  const all = <Value>(value: Value) => streams.map(() => value);
  await stage.query('select whizbang.store_inbox_messages($1::uuid[], $2, $3, $4, $5, $6, $7::uuid[])', [
    streams.map(() => randomUUID()),
    all('shipping/numbered'),
    all('numbered'),
    all('numbers'),
    streams.map((_, n) => JSON.stringify({ n })),
    all('{}'),
    streams.map((stream) => (stream === null ? null : streamOf(stream))),
  ]);
}

/** As two processes left it that died with the row in hand. */
async function makeSuspect(stage: Stage, n: number): Promise<void> {
  await stage.query(
    `update whizbang.wh_inbox set attempts = 2, instance_id = $2, lease_expiry = now() - interval '1 second'
     where (event_data ->> 'n')::integer = $1`,
    [n, randomUUID()],
  );
}

test('a suspect whose handler never returns does not stop the others', async () => {
  const stage = await Stage.open();
  await store(stage, [null, null]);
  await makeSuspect(stage, 0);
  const handled: number[] = [];
  const service = await stage.service({ leaseSeconds: 1, dispatcher: { maxLeaseRenewals: 0 }, stopTimeoutMs: 100 });
  service.handle(Numbered, async ({ n }) => {
    if (n === 0) await new Promise(() => undefined);
    handled.push(n);
  });
  await service.start();
  await waitFor(() => handled.includes(1), { message: 'its neighbour', timeoutMs: 10_000 });
  // Its lease runs out again and again, and it is claimed again, on trial, while its first try still hangs.
  await waitFor(async () => (await stage.count('wh_inbox', 'attempts >= 5')) === 1, {
    message: 'two more claims of it',
    timeoutMs: 15_000,
  });
  await store(stage, [null, null, null]);
  await waitFor(() => handled.includes(2), { message: 'what came later', timeoutMs: 10_000 });
  expect(handled).not.toContain(0);
});

test('a suspect waits behind the failed head of its stream, also when it was in hand already', async () => {
  const stage = await Stage.open();
  await store(stage, ['a', 'a']);
  await makeSuspect(stage, 1);
  const begun: string[] = [];
  const service = await stage.service({ failures: { baseSeconds: 0.5, breaker: { enabled: false } } });
  service.handle(Numbered, async ({ n }, { attempt }) => {
    begun.push(`${n}, attempt ${attempt}`);
    await delay(500);
    if (n === 0 && attempt === 1) throw new Error('the head fails');
  });
  await service.start();
  await stage.waitForEmpty();
  expect(begun).toEqual(['0, attempt 1', '0, attempt 2', '1, attempt 3']);
});
