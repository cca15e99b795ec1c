import assert from 'node:assert/strict';

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { WorkTable, migratedDatabase, workTables } from './work-table.js';

const holders = [1, 2, 3].map((number) => `0190aaaa-0000-7000-8000-00000000000${number}`);

let database: Awaited<ReturnType<typeof migratedDatabase>>;
beforeAll(async () => {
  database = await migratedDatabase();
});
afterAll(() => database.close());

// A label is used once.
let counter = 0;

/** What the documents say of a row, and no more. */
interface ModelRow {
  readonly label: string;
  readonly stream: string;
  holder: string | undefined;
  expired: boolean;
  attempts: number;
  /** Waits for its retry. */
  waits: boolean;
}

/** Everything in the order in which it was stored. */
class Model {
  rows: ModelRow[] = [];

  /** What a claim may take, and has to, when its limit allows. */
  claim(holder: string, limit: number): string[] {
    const taken: ModelRow[] = [];
    for (const row of this.rows) {
      const isFree = !row.waits && (row.holder === undefined || row.expired);
      const before = this.rows.slice(0, this.rows.indexOf(row)).filter((other) => other.stream === row.stream);
      const isPrefix =
        row.stream === '-' ||
        before.every((other) => taken.includes(other) || (other.holder === holder && !other.expired));
      if (isFree && isPrefix && taken.length < limit) taken.push(row);
    }
    for (const row of taken) Object.assign(row, { holder, expired: false, attempts: row.attempts + 1 });
    return taken.map((row) => row.label);
  }

  heldBy(holder: string): ModelRow[] {
    return this.rows.filter((row) => row.holder === holder);
  }
}

type Step =
  | { readonly kind: 'store'; readonly streams: readonly string[] }
  | { readonly kind: 'claim'; readonly holder: string; readonly limit: number; readonly blockLeased: boolean }
  | { readonly kind: 'complete' | 'fail' | 'release'; readonly holder: string; readonly count: number }
  | { readonly kind: 'expire'; readonly holder: string }
  | { readonly kind: 'due' | 'unblock' };

const holder = fc.constantFrom(...holders);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('store' as const),
      streams: fc.array(fc.constantFrom('a', 'b', 'c', '-'), { minLength: 1, maxLength: 6 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('claim' as const),
      holder,
      limit: fc.integer({ min: 1, max: 5 }),
      blockLeased: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom('complete' as const, 'fail' as const, 'release' as const),
      holder,
      count: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('expire' as const), holder }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('due' as const, 'unblock' as const) }) },
);

describe.each(workTables)('whatever three instances do to the %s', (name) => {
  test(
    'claims take what the prefix rule allows, attempts count tries, and nothing is stranded',
    { timeout: 120_000 },
    async () => {
      const table = new WorkTable(name, database.pool);
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
          await table.empty();
          const model = new Model();
          for (const one of steps) await take(one, table, model);
          await comparesWith(table, model);
          await drains(table, model);
        }),
        { numRuns: Number(process.env['MODEL_RUNS'] ?? 30) },
      );
      expect(await table.states()).toEqual([]);
    },
  );
});

async function take(one: Step, table: WorkTable, model: Model): Promise<void> {
  switch (one.kind) {
    case 'store': {
      const labels = one.streams.map((stream) => `${stream}${(counter += 1)}`);
      await table.store(labels);
      model.rows.push(
        ...labels.map((label) => ({
          label,
          stream: label.slice(0, 1),
          holder: undefined,
          expired: false,
          attempts: 0,
          waits: false,
        })),
      );
      return;
    }
    case 'claim': {
      const before = new Map(model.rows.map((row) => [row.label, { ...row }]));
      const allowed = model.claim(one.holder, Infinity);
      const got = await table.claimLabels(one.holder, one);
      // Rows that wait behind others may be taken later than the rule allows, never earlier; and in order.
      const rightly = got.filter((label) => allowed.includes(label));
      assert.deepEqual(rightly, got);
      for (const stream of ['a', 'b', 'c']) {
        const of = (labels: readonly string[]) => labels.filter((label) => label.startsWith(stream));
        assert.deepEqual(of(got), of(allowed).slice(0, of(got).length));
      }
      model.rows = model.rows.map((row) => (got.includes(row.label) ? row : (before.get(row.label) ?? row)));
      return;
    }
    case 'complete':
    case 'fail':
    case 'release': {
      const rows = model.heldBy(one.holder).slice(0, one.count);
      const ids = new Map((await table.states()).map((row) => [row.label, row.message_id]));
      const tries = rows.map((row) => ({ messageId: ids.get(row.label) ?? '', attempts: row.attempts }));
      assert.deepEqual(await table[one.kind](one.holder, tries), []);
      for (const row of rows) {
        if (one.kind === 'release') row.attempts -= 1;
        Object.assign(row, { holder: undefined, expired: false, waits: one.kind === 'fail' });
      }
      if (one.kind === 'complete') model.rows = model.rows.filter((row) => !rows.includes(row));
      return;
    }
    case 'expire': {
      const rows = model.heldBy(one.holder);
      await table.set(
        `lease_expiry = now() - interval '1 second'`,
        rows.map((row) => row.label),
      );
      for (const row of rows) row.expired = true;
      return;
    }
    case 'due': {
      const rows = model.rows.filter((row) => row.waits);
      await table.set(
        `scheduled_for = now() - interval '1 second'`,
        rows.map((row) => row.label),
      );
      for (const row of rows) row.waits = false;
      return;
    }
    case 'unblock':
      await table.unblockStranded();
  }
}

async function comparesWith(table: WorkTable, model: Model): Promise<void> {
  const states = await table.states();
  expect(states.map(({ label, attempts, instance_id: by }) => ({ label, attempts, by }))).toEqual(
    model.rows.map(({ label, attempts, holder: by }) => ({ label, attempts, by: by ?? null })),
  );
}

/** Once all leases have run out and all retries are due, one instance empties the table, each stream in its order. */
async function drains(table: WorkTable, model: Model): Promise<void> {
  for (const one of holders) await take({ kind: 'expire', holder: one }, table, model);
  await take({ kind: 'due' }, table, model);
  const drained: string[] = [];
  for (let rows = await table.claim(holders[0] ?? ''); rows.length > 0; rows = await table.claim(holders[0] ?? '')) {
    drained.push(...rows.map((row) => row.label));
    expect(await table.complete(holders[0] ?? '', rows)).toEqual([]);
  }
  for (const stream of ['a', 'b', 'c', '-']) {
    const of = (labels: readonly string[]) => labels.filter((label) => label.startsWith(stream));
    expect(of(drained)).toEqual(of(model.rows.map((row) => row.label)));
  }
  expect(await table.states()).toEqual([]);
}
