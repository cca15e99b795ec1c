import { randomBytes } from 'node:crypto';

import pg from 'pg';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { OrderChanged } from './orders.js';
import { KeptLog, atEnd, migratedDatabase, testPool, testService, untilAsleep } from './test-service.js';

test('somebody who may do nothing but NOTIFY, and does so without end, costs some looks and nothing else', async () => {
  const { url, pool: owner } = await migratedDatabase();
  const role = `notifier_${randomBytes(6).toString('hex')}`;
  await owner.query(`create role ${role} login password 'secret'`);
  atEnd(async () => void (await owner.query(`drop role ${role}`)));
  const target = new URL(url);
  target.username = role;
  target.password = 'secret';

  const { rows } = await owner.query<{ channel: string }>(
    `select whizbang.wake_channel(kind) as channel from unnest(array['outbox', 'inbox', 'deadletter', 'selftest']) kind`,
  );
  const channels = rows.map((row) => row.channel);
  const pool = testPool(url, 16);
  const log = new KeptLog();
  const numbers: number[] = [];
  const whizbang = await testService({ database: pool, logger: log });
  whizbang.handle(OrderChanged, ({ number }) => void numbers.push(number));
  await whizbang.start();
  await untilAsleep(owner, 2);

  const said = [...log.lines];
  let statements = 0;
  const query = pool.query.bind(pool) as (...parameters: unknown[]) => unknown;
  Object.assign(pool, {
    query: (...parameters: unknown[]) => {
      statements += 1;
      return query(...parameters);
    },
  });
  const forger = new pg.Client({ connectionString: target.href });
  await forger.connect();
  atEnd(() => forger.end());
  const seconds = 4;
  const endMs = performance.now() + seconds * 1000;
  let forged = 0;
  while (performance.now() < endMs) {
    await forger.query(
      `select pg_notify(channel, kind || n) from unnest($1::text[]) channel,
         unnest(array['stop', 'migrate', '{"shutdown": true}', '']) kind, generate_series(1, 5) n`,
      [channels],
    );
    forged += channels.length * 20;
  }
  expect(forged).toBeGreaterThan(10_000);
  // A worker looks, polls briefly and lies down again for each that it hears: a dozen statements, four times a second at the
  // end. Without a limit it never lies down.
  expect(statements / seconds).toBeLessThan(300);
  expect(log.lines).toEqual(said);
  await whizbang.publishNow(OrderChanged, { order: 'a', number: 1 });
  await waitFor(() => numbers.length === 1, { message: 'the message after the flood', timeoutMs: 5000 });
});
