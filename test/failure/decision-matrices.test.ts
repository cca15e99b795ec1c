import { defineMessage } from '@whizbang/core';
import { z } from 'zod';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { FailureJudge } from '../../packages/core/src/failure/failure-judge.js';
import { type Claimed, WorkRows, failureDatabase, tables } from './work-rows.js';

const holder = '0190aaaa-0000-7000-8000-000000000001';
const other = '0190aaaa-0000-7000-8000-000000000002';

let database: Awaited<ReturnType<typeof failureDatabase>>;
beforeAll(async () => {
  database = await failureDatabase();
});
afterAll(() => database.close());

interface Case {
  /** The columns of the seed's cascade decision matrix. */
  readonly m1: string;
  readonly m2LeaseCleared: string;
  readonly claimable: boolean;
  readonly arrange: (rows: WorkRows, m1: Claimed, m2: Claimed) => Promise<unknown>;
}

const scheduled = async (rows: WorkRows, m1: Claimed) => rows.fail(holder, [m1]);

const cascade: readonly Case[] = [
  {
    m1: 'Failed, scheduled',
    m2LeaseCleared: 'No',
    claimable: false,
    arrange: scheduled,
  },
  {
    m1: 'Failed, scheduled',
    m2LeaseCleared: 'Yes (Status=0)',
    claimable: false,
    arrange: async (rows, m1, m2) => {
      await scheduled(rows, m1);
      await rows.release(holder, [m2]);
    },
  },
  {
    m1: 'Failed, not scheduled',
    m2LeaseCleared: 'Yes',
    claimable: true,
    arrange: async (rows, m1, m2) => {
      await scheduled(rows, m1);
      await rows.release(holder, [m2]);
      await rows.set('scheduled_for = null', 'a1');
    },
  },
  {
    m1: 'Processing (active lease)',
    m2LeaseCleared: 'N/A',
    claimable: false,
    arrange: (rows, _, m2) => rows.release(holder, [m2]),
  },
  {
    m1: 'Completed',
    m2LeaseCleared: 'N/A',
    claimable: true,
    arrange: async (rows, m1, m2) => {
      await rows.complete(holder, [m1]);
      await rows.release(holder, [m2]);
    },
  },
];

describe.each(tables)('cascade decision matrix, %s', (name) => {
  let rows: WorkRows;
  beforeEach(async () => {
    rows = new WorkRows(name, database.pool);
    await rows.empty();
  });

  test.each(cascade)('$m1; lease of M2 cleared: $m2LeaseCleared → claimable: $claimable', async (one) => {
    await rows.store('a1', 'a2');
    const [m1, m2] = await rows.claim(holder);
    if (m1 === undefined || m2 === undefined) throw new Error('both were to be claimed');
    await one.arrange(rows, m1, m2);
    const before = await rows.row('a2');
    const labels = (await rows.claim(other)).map((row) => row.label);
    expect(labels.includes('a2')).toBe(one.claimable);
    // "Failed, not scheduled": what is not scheduled is due, so M1 is taken along, before M2.
    expect(labels).toEqual(one.claimable ? (one.m1 === 'Completed' ? ['a2'] : ['a1', 'a2']) : []);
    // Released rows keep their status and get their attempt back, whatever became of M1.
    const held = one.m2LeaseCleared === 'No';
    expect(before).toMatchObject({ status: 1, attempts: held ? 1 : 0, instance_id: held ? holder : null });
  });
});

const definition = (streamFailurePolicy?: 'block' | 'continue') =>
  defineMessage('message', {
    schema: z.object({}),
    destination: 'orders',
    ...(streamFailurePolicy === undefined ? {} : { streamFailurePolicy }),
  });

// The seed's "ordering or availability" matrix: a scenario chooses a strategy, per message type.
const strategies = [
  { scenario: 'Financial transactions', strategy: 'Strict ordering', option: undefined, passes: false },
  { scenario: 'Audit logs', strategy: 'Strict ordering', option: 'block', passes: false },
  { scenario: 'Notifications', strategy: 'High availability', option: 'continue', passes: true },
  { scenario: 'Analytics events', strategy: 'High availability', option: 'continue', passes: true },
] as const;

describe.each(tables)('decision matrix of ordering and availability, %s', (name) => {
  test.each(strategies)('$scenario: $strategy ($option) → M2 passes: $passes', async ({ option, passes }) => {
    const rows = new WorkRows(name, database.pool);
    await rows.empty();
    const settings = { maxAttempts: 10, baseSeconds: 30, maxFactor: 10, jitter: 0, generation: 'build-1' };
    const policy = new FailureJudge(settings, true, [definition(option)]).policyOf('message');
    await rows.store('a1', 'a2', 'a3');
    const [m1, ...behind] = await rows.claim(holder);
    await rows.fail(holder, m1 === undefined ? [] : [m1], { policy: ['block', 'continue', 'park'].indexOf(policy) });
    await rows.release(holder, behind);
    expect((await rows.claim(other)).map((row) => row.label)).toEqual(passes ? ['a2', 'a3'] : []);
  });
});

test.each(tables)(
  '%s: followers that were put behind a head in hand pass it when it fails under continue',
  async (name) => {
    const rows = new WorkRows(name, database.pool);
    await rows.empty();
    await rows.store('a1', 'a2');
    const [m1, m2] = await rows.claim(holder);
    await rows.release(holder, m2 === undefined ? [] : [m2]);
    // Another instance keeps meeting a2, and takes it out of the way of its claims.
    await database.pool.query(`select * from whizbang.claim_orphaned_${name}($1, 100, 1000000, 60, true)`, [other]);
    expect((await rows.row('a2')).blocked).toBe(true);
    await rows.fail(holder, m1 === undefined ? [] : [m1], { policy: 1 });
    expect((await rows.claim(other)).map((row) => row.label)).toEqual(['a2']);
  },
);
