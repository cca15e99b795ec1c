import { setTimeout as delay } from 'node:timers/promises';

import { createInProcessTransport } from '@whizbang/core/testing';
import type { Transport } from '@whizbang/core/transport';
import type pg from 'pg';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { testProgram } from '../fixtures/test-services.js';
import { OrderChanged } from './orders.js';
import { compiledProgram } from './service-program.js';
import { migratedDatabase, testService } from './test-service.js';

const usual = [
  'only publishes in transactions of its own, and forgets to stop',
  'only calls publishNow, and forgets to stop',
  'has stopped before it started',
  'has stopped twice',
  'has stopped while it started',
];
const wrong = [
  'could not start: nobody listens at the address of the database',
  'could not start: the database does not exist',
  'could not start: the transport fails to connect',
  'could not start: the transport fails to subscribe',
];

test.each([...usual, ...wrong])('a program that %s ends by itself', async (what) => {
  const { url, pool } = await migratedDatabase();
  const program = testProgram(compiledProgram('ends-by-itself'), { CASE: what, DATABASE_URL: url });
  await program.waitForMessage(({ done }) => done !== undefined, { message: 'its work', timeoutMs: 30_000 });
  const exit = await Promise.race([program.exited, delay(10_000, 'still running', { ref: false })]);
  expect(exit, program.output).toEqual({ code: 0, signal: null });
  if (wrong.includes(what)) expect(program.messages[0]).toMatchObject({ rejected: true });
  await nothingLeft(pool);
});

/** The functions that the parts of a service call first; each is made to fail in turn. */
const calls = ['record_heartbeat', 'exchange_outbox_work', 'exchange_inbox_work', 'acquire_duty', 'arm_doorbell'];

test.each(calls)('a service whose %s fails at start leaves nothing behind when it is stopped', async (name) => {
  const { url, pool } = await migratedDatabase();
  const { rows } = await pool.query<{ signature: string }>(
    `select p.oid::regprocedure::text as signature from pg_proc p where p.pronamespace = 'whizbang'::regnamespace and p.proname = $1`,
    [name],
  );
  for (const { signature } of rows) await pool.query(`alter function ${signature} rename to hidden`);
  const whizbang = await testService({ database: url });
  whizbang.handle(OrderChanged, () => undefined);
  await whizbang.start().catch(() => undefined);
  expect(await whizbang.stop()).toEqual({ unfinished: 0 });
  for (const { signature } of rows) {
    await pool.query(`alter function ${signature.replace(name, 'hidden')} rename to ${name}`);
  }
  await nothingLeft(pool);
  const numbers: number[] = [];
  const next = await testService({ database: url });
  next.handle(OrderChanged, ({ number }) => void numbers.push(number));
  await next.start();
  await next.publishNow(OrderChanged, { order: 'a', number: 1 });
  await waitFor(() => numbers.length === 1, { message: 'the next service to work' });
  expect(numbers).toEqual([1]);
});

test('a start that failed at the broker leaves nothing, and the next service in the same process works', async () => {
  const { url, pool } = await migratedDatabase();
  for (const step of ['connect', 'subscribe'] as const) {
    const transport: Transport = createInProcessTransport('memory:half-started', undefined);
    Object.defineProperty(transport, step, { value: () => Promise.reject(new Error(`${step} fails`)) });
    const whizbang = await testService({ database: url, broker: transport });
    whizbang.handle(OrderChanged, () => undefined);
    await expect(whizbang.start()).rejects.toThrow(`${step} fails`);
    await expect(whizbang.start()).rejects.toThrow(/make a new one with createWhizbang/);
    await nothingLeft(pool);
  }
  const numbers: number[] = [];
  const next = await testService({ database: url });
  next.handle(OrderChanged, ({ number }) => void numbers.push(number));
  await next.start();
  await next.publishNow(OrderChanged, { order: 'a', number: 1 });
  await waitFor(() => numbers.length === 1, { message: 'the next service to work' });
});

/** The server notices the end of a session a moment later than its client. */
async function nothingLeft(pool: pg.Pool): Promise<void> {
  const look = async () => {
    const { rows } = await pool.query<Record<string, number>>(
      `select (select count(*)::integer from whizbang.wh_service_instances) as instances,
              (select count(*)::integer from whizbang.wh_doorbells) as doorbells,
              (select count(*)::integer from whizbang.wh_duties where lease_expiry > now()) as duties,
              (select count(*)::integer from whizbang.wh_outbox where instance_id is not null) as leases,
              (select count(*)::integer from pg_stat_activity where datname = current_database()
                 and application_name like 'whizbang-%') as sessions`,
    );
    expect(rows).toEqual([{ instances: 0, doorbells: 0, duties: 0, leases: 0, sessions: 0 }]);
    return true;
  };
  await waitFor(look, { message: 'nothing to be left' });
}
