import { setTimeout as delay } from 'node:timers/promises';

import { defineMessage } from '@whizbang/core';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';

import { gateToDatabase } from '../fixtures/network/gate-to-database.js';
import { waitFor } from '../fixtures/wait-for.js';
import { Stage } from './service.js';

const Numbered = defineMessage('numbered', { schema: z.object({ n: z.number() }), destination: 'numbers' });

test('stop ends although the database does not answer any more', async () => {
  const stage = await Stage.open();
  const { gate, gatedUrl } = await gateToDatabase(stage.url);
  onTestFinished(() => gate.close());
  const service = await stage.service({ database: gatedUrl, stopTimeoutMs: 500 });
  service.handle(Numbered, () => undefined);
  await service.start();
  await waitFor(async () => (await service.status()).elected, { message: 'its election', timeoutMs: 10_000 });
  gate.stall();
  const ended = service.stop().then(() => 'ended');
  expect(await Promise.race([ended, delay(30_000, 'still stopping', { ref: false })])).toBe('ended');
  // Nor does it keep connections to it: nobody would ever answer on them.
  gate.resume('new');
  await waitFor(() => gate.connections === 0, { message: 'its connections to end', timeoutMs: 3_000 });
}, 45_000);

test('notifications of anybody, whatever they say, harm nobody, also in the middle of start and stop', async () => {
  const stage = await Stage.open();
  const channels = await stage.query<{ name: string }>(
    `select whizbang.wake_channel(c) as name from unnest(array['outbox', 'inbox', 'deadletter', 'selftest']) c`,
  );
  const noise = ['', '\u{1F514}'.repeat(9), '{', 'x'.repeat(7_999), `'; drop table wh_outbox; --`];
  let quiet = false;
  const noisy = (async () => {
    while (!quiet) {
      for (const { name } of channels)
        for (const text of noise) await stage.query('select pg_notify($1, $2)', [name, text]);
    }
  })();
  for (let round = 0; round < 10; round += 1) {
    const service = await stage.service({});
    const handled = new Promise<void>((resolve) => service.handle(Numbered, () => resolve()));
    await service.start();
    if (round % 2 === 0) {
      await service.publishNow(Numbered, { n: round });
      await handled;
    }
    expect(await service.stop()).toEqual({ unfinished: 0 });
  }
  quiet = true;
  await noisy;
  const troubles = stage.log.filter(({ level }) => level === 'warn' || level === 'error');
  expect(troubles.filter(({ message }) => !/Notifications do not arrive/.test(message))).toEqual([]);
}, 60_000);

test.each([0, 10, 40])('stop after %d ms of start leaves nothing that runs', async (afterMs) => {
  const stage = await Stage.open();
  // The application's own pool: it outlives the service.
  const pool = new pg.Pool({ connectionString: stage.url, max: 12 });
  onTestFinished(() => pool.end());
  const service = await stage.service({ database: pool });
  service.handle(Numbered, () => undefined);
  const started = service.start().then(
    () => undefined,
    () => undefined,
  );
  await delay(afterMs);
  await service.stop();
  await started;
  expect(await stage.query('select * from whizbang.wh_service_instances')).toEqual([]);
  const listeners = `select 1 from pg_stat_activity where application_name = 'whizbang-listener' and datname = current_database()`;
  await waitFor(async () => (await stage.query(listeners)).length === 0, { message: 'no listener', timeoutMs: 3_000 });
});
