import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { type ClaimOptions, WorkTable, inTransaction, migratedDatabase, workTables } from './work-table.js';

const me = '0190aaaa-0000-7000-8000-000000000001';
const other = '0190aaaa-0000-7000-8000-000000000002';

let database: Awaited<ReturnType<typeof migratedDatabase>>;
beforeAll(async () => {
  database = await migratedDatabase();
});
afterAll(() => database?.close());

interface Case {
  readonly when: string;
  readonly stored: readonly string[];
  readonly given?: (table: WorkTable) => Promise<unknown>;
  readonly claim?: ClaimOptions;
  readonly claimed: readonly string[];
}

const failHead = async (table: WorkTable) => {
  const [head] = await table.claim(other, { limit: 1 });
  if (head !== undefined) await table.fail(other, [head]);
};

const cases: readonly Case[] = [
  { when: 'nothing stands in the way', stored: ['a1', 'b1', 'a2', '-1'], claimed: ['a1', 'b1', 'a2', '-1'] },
  { when: 'the head waits for its retry', stored: ['a1', 'a2', 'b1'], given: failHead, claimed: ['b1'] },
  {
    when: 'the retry of the head is due',
    stored: ['a1', 'a2'],
    given: async (table) => {
      await failHead(table);
      await table.set(`scheduled_for = now() - interval '1 second'`, ['a1']);
    },
    claimed: ['a1', 'a2'],
  },
  {
    when: 'the head is leased by another instance',
    stored: ['a1', 'a2', 'b1'],
    given: (table) => table.claim(other, { limit: 1 }),
    claimed: ['b1'],
  },
  {
    when: 'the head is leased by this instance',
    stored: ['a1', 'a2', 'b1'],
    given: (table) => table.claim(me, { limit: 1 }),
    claimed: ['a2', 'b1'],
  },
  {
    when: 'the lease of the head has run out, another had it',
    stored: ['a1', 'a2'],
    given: async (table) => {
      await table.claim(other, { limit: 1 });
      await table.set(`lease_expiry = now() - interval '1 second'`, ['a1']);
    },
    claimed: ['a1', 'a2'],
  },
  {
    when: 'the lease of a row in the middle has run out while the head is held elsewhere',
    stored: ['a1', 'a2', 'a3'],
    given: async (table) => {
      await table.claim(other, { limit: 2 });
      await table.set(`lease_expiry = now() - interval '1 second'`, ['a2']);
    },
    claimed: [],
  },
  {
    when: 'another holds the middle and this instance the head',
    stored: ['a1', 'a2', 'a3'],
    given: async (table) => {
      await table.claim(me, { limit: 1 });
      await table.set(`instance_id = '${other}', lease_expiry = now() + interval '1 minute'`, ['a2']);
    },
    claimed: [],
  },
  {
    when: 'the head is parked at infinity',
    stored: ['a1', 'a2', 'a3'],
    given: (table) => table.set(`scheduled_for = 'infinity'`, ['a1']),
    claimed: ['a2', 'a3'],
  },
  {
    when: 'the head is completed',
    stored: ['a1', 'a2'],
    given: async (table) => table.complete(other, await table.claim(other, { limit: 1 })),
    claimed: ['a2'],
  },
  {
    when: 'the head is completed and kept',
    stored: ['a1', 'a2'],
    given: async (table) => table.complete(other, await table.claim(other, { limit: 1 }), { retain: true }),
    claimed: ['a2'],
  },
  {
    when: 'the head is released',
    stored: ['a1', 'a2'],
    given: async (table) => table.release(other, await table.claim(other, { limit: 1 })),
    claimed: ['a1', 'a2'],
  },
  {
    when: 'of two streams one waits',
    stored: ['a1', 'b1', 'a2', 'b2', 'a3', 'b3'],
    given: failHead,
    claimed: ['b1', 'b2', 'b3'],
  },
  {
    when: 'rows without a stream surround one that is leased elsewhere',
    stored: ['-1', '-2', '-3'],
    given: (table) => table.claim(other, { limit: 1 }),
    claimed: ['-2', '-3'],
  },
  {
    when: 'a row in the middle is scheduled for later',
    stored: ['a1', 'a2', 'a3', 'b1'],
    given: (table) => table.set(`scheduled_for = now() + interval '1 day'`, ['a2']),
    claimed: ['a1', 'b1'],
  },
  {
    when: 'a row in the middle is parked',
    stored: ['a1', 'a2', 'a3'],
    given: (table) => table.set(`scheduled_for = 'infinity'`, ['a2']),
    claimed: ['a1', 'a3'],
  },
  {
    when: 'the limit cuts inside a stream',
    stored: ['a1', 'a2', 'a3'],
    claim: { limit: 2 },
    claimed: ['a1', 'a2'],
  },
  {
    when: 'the limit cuts inside a stream whose head has become due',
    stored: ['a1', 'b1', 'b2', 'b3'],
    given: async (table) => {
      await failHead(table);
      await table.set(`scheduled_for = now() - interval '1 second'`, ['a1']);
    },
    claim: { limit: 2 },
    claimed: ['a1', 'b1'],
  },
  {
    when: 'a due row lies behind more due rows than the limit takes',
    stored: ['a1', 'b1', 'c1', 'c2'],
    given: async (table) => {
      await table.set(`scheduled_for = now() - interval '3 second'`, ['a1', 'b1']);
      await table.set(`scheduled_for = now() - interval '2 second'`, ['c1']);
    },
    claim: { limit: 2 },
    claimed: ['a1', 'b1'],
  },
  {
    when: 'the bytes run out: a row that begins within the bound is taken',
    stored: ['a1', 'b1', 'a2', 'b2'],
    // 2 bytes each.
    claim: { maxBytes: 3 },
    claimed: ['a1', 'b1'],
  },
  { when: 'the first row alone is beyond the bytes', stored: ['a1', 'a2'], claim: { maxBytes: 1 }, claimed: ['a1'] },
  { when: 'there is nothing', stored: [], claimed: [] },
];

describe.each(workTables)('of a stream, a claim of the %s takes only a contiguous prefix', (name) => {
  let table: WorkTable;
  beforeEach(async () => {
    table = new WorkTable(name, database.pool);
    await table.empty();
  });

  test.each(cases)('when $when: $claimed', async ({ stored, given, claim, claimed }) => {
    await table.store(stored);
    await given?.(table);
    expect(await table.claimLabels(me, claim ?? {})).toEqual(claimed);
  });

  test('when the head is locked by a claim that has not committed', async () => {
    await table.store(['a1', 'a2', 'b1']);
    const theirs = await inTransaction(database.pool, async (client) => {
      const first = await table.claimLabels(other, { limit: 1, on: client });
      expect(await table.claimLabels(me)).toEqual(['b1']);
      return first;
    });
    expect(theirs).toEqual(['a1']);
    expect(await table.claimLabels(me)).toEqual([]);
    expect(await table.claimLabels(other)).toEqual(['a2']);
  });

  test('when the head is locked by somebody who only looks at it', async () => {
    await table.store(['a1', 'a2']);
    await inTransaction(database.pool, async (client) => {
      await client.query(`select 1 from ${table.table} where message_type = 'a1' for update`);
      expect(await table.claimLabels(me)).toEqual([]);
    });
    expect(await table.claimLabels(me)).toEqual(['a1', 'a2']);
  });

  test('when a transaction with a lower sequence commits later: its row is taken by the next claim', async () => {
    await inTransaction(database.pool, async (late) => {
      await table.store(['a1', '-1'], { on: late });
      await table.store(['b1', '-2']);
      expect(await table.claimLabels(me)).toEqual(['b1', '-2']);
      await table.complete(me, await rowsOf(table, me));
    });
    expect(await table.claimLabels(me)).toEqual(['a1', '-1']);
  });

  test('and a row whose lease has run out counts one attempt more, for whoever claims it', async () => {
    await table.store(['a1']);
    expect((await table.claim(other)).map((row) => row.attempts)).toEqual([1]);
    expect(await table.claim(me)).toEqual([]);
    await table.set(`lease_expiry = now() - interval '1 second'`, ['a1']);
    expect((await table.claim(me)).map((row) => row.attempts)).toEqual([2]);
    expect((await table.state('a1')).instance_id).toBe(me);
  });

  test('in sequence order, with what was stored', async () => {
    await table.store(['b1', 'a1', 'a2'], { body: '{"n": 1}' });
    const rows = await table.claim(me);
    expect(rows.map((row) => [row.label, row.eventData, row.candidates])).toEqual([
      ['b1', '{"n": 1}', 3],
      ['a1', '{"n": 1}', 3],
      ['a2', '{"n": 1}', 3],
    ]);
    const sequences = rows.map((row) => row.sequence);
    expect(sequences).toEqual(sequences.toSorted((left, right) => Number(left - right)));
  });
});

async function rowsOf(table: WorkTable, holder: string) {
  const states = await table.states();
  return states
    .filter((row) => row.instance_id === holder)
    .map((row) => ({ messageId: row.message_id, attempts: row.attempts }));
}
