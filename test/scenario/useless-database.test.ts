import { randomBytes } from 'node:crypto';

import type pg from 'pg';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { OrderChanged } from './orders.js';
import { KeptLog, atEnd, migratedDatabase, testService } from './test-service.js';

interface Trouble {
  readonly name: string;
  /** Says why in the logs. */
  readonly reason: RegExp;
  readonly begin: (role: string) => string;
  readonly end: (role: string) => string;
}

const troubles: readonly Trouble[] = [
  {
    name: 'has become a standby',
    reason: /read-only transaction/,
    begin: (role) => `alter role ${role} set default_transaction_read_only = on`,
    end: (role) => `alter role ${role} reset default_transaction_read_only`,
  },
  {
    name: 'has taken back its rights',
    reason: /permission denied/,
    begin: (role) => `revoke all on all tables in schema whizbang from ${role}`,
    end: (role) => `grant all on all tables in schema whizbang to ${role}`,
  },
];

/** A role that may use the tables, and the URL with which it logs in. */
async function workersRole(pool: pg.Pool, url: string): Promise<{ role: string; asRole: string }> {
  const role = `worker_${randomBytes(6).toString('hex')}`;
  await pool.query(`create role ${role} login password 'secret'`);
  atEnd(async () => {
    await pool.query(`drop owned by ${role}`);
    await pool.query(`drop role ${role}`);
  });
  await pool.query(`grant usage on schema whizbang to ${role}`);
  await pool.query(`grant all on all tables in schema whizbang to ${role}`);
  await pool.query(`grant all on all sequences in schema whizbang to ${role}`);
  return { role, asRole: Object.assign(new URL(url), { username: role, password: 'secret' }).href };
}

test.each(troubles)(
  'a database that $name fills no log, and when it is over everything goes on',
  async ({ reason, begin, end }) => {
    const { url, pool } = await migratedDatabase();
    const { role, asRole } = await workersRole(pool, url);
    const log = new KeptLog();
    const handled: number[] = [];
    const whizbang = await testService({ database: asRole, logger: log });
    whizbang.handle(OrderChanged, ({ number }) => void handled.push(number));
    await whizbang.start();
    await whizbang.publishNow(OrderChanged, { order: 'a', number: 1 });
    await waitFor(() => handled.length === 1, { message: 'the first message' });

    const before = log.lines.length;
    await pool.query(begin(role));
    // What is set for a role counts from its next session on.
    await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, [role]);
    await waitFor(() => log.lines.slice(before).some((line) => reason.test(line)), { message: 'the reason' });
    // While the workers try again: after 100 ms, 200, 400, 800, 1.6 s.
    const triesUntil = performance.now() + 3_500;
    await waitFor(() => performance.now() > triesUntil, { message: 'some tries', timeoutMs: 5_000 });
    const lines = log.lines.slice(before);
    // Idle connections that were cut, the listener, and once for each of the workers.
    expect(lines.length, lines.join('\n')).toBeLessThan(30);
    expect(lines.filter((line) => /cannot use the database/.test(line)).length, lines.join('\n')).toBeLessThanOrEqual(
      4,
    );

    await pool.query(end(role));
    await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, [role]);
    await waitFor(
      async () => {
        await whizbang.publishNow(OrderChanged, { order: 'a', number: 2 });
        return true;
      },
      { message: 'the database to take a message', timeoutMs: 20_000 },
    );
    await waitFor(() => handled.includes(2), { message: 'the second message', timeoutMs: 20_000 });
    expect(handled.filter((number) => number === 1)).toHaveLength(1);
  },
);
