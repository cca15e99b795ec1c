import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { type Claimed, WorkRows, failureDatabase, tables } from './work-rows.js';

const holder = '0190aaaa-0000-7000-8000-000000000001';
const other = '0190aaaa-0000-7000-8000-000000000002';

let database: Awaited<ReturnType<typeof failureDatabase>>;
beforeAll(async () => {
  database = await failureDatabase();
});
afterAll(() => database.close());

describe.each(tables)('dead letters of the %s', (name) => {
  let rows: WorkRows;
  beforeEach(async () => {
    rows = new WorkRows(name, database.pool);
    await rows.empty();
  });

  const claimOne = async (label = 'a1') => {
    await rows.store(label);
    return rows.claimOne(holder);
  };

  test('moving leaves the table and arrives in the other, once', async () => {
    const row = await claimOne();
    expect(await rows.move(holder, [row])).toEqual([row.messageId]);
    expect(await rows.move(holder, [row])).toEqual([]);
    expect(await rows.move(null, [row])).toEqual([]);
    expect(await rows.rows()).toEqual([]);
    expect(await rows.dead()).toMatchObject([
      {
        source_id: row.messageId,
        failure_reason: 5,
        last_failure_reason: 2,
        error_text: 'given up',
        generation: 'build-1',
      },
    ]);
  });

  test('a message that one call names twice is moved once', async () => {
    const row = await claimOne();
    expect(await rows.move(holder, [row, row])).toEqual([row.messageId]);
    expect(await rows.dead()).toHaveLength(1);
  });

  test('moving unblocks the stream', async () => {
    await rows.store('a1', 'a2');
    const [head, behind] = await rows.claim(holder);
    await rows.fail(holder, head === undefined ? [] : [head]);
    await rows.release(holder, behind === undefined ? [] : [behind]);
    expect(await rows.claim(other)).toEqual([]);
    expect((await rows.row('a2')).blocked).toBe(true);
    // As the seed's answer to a blocked stream: an operator moves whatever holds it.
    await rows.move(null, head === undefined ? [] : [head]);
    expect((await rows.claim(other)).map((row) => row.label)).toEqual(['a2']);
  });

  test('nothing is in both tables or in neither when moving is interrupted', async () => {
    const row = await claimOne();
    const client = await database.pool.connect();
    try {
      await client.query('begin');
      await client.query('select whizbang.move_to_dead_letters($1, $2, $3, $4)', [
        `wh_${name}`,
        holder,
        JSON.stringify([{ messageId: row.messageId, attempt: 1, reason: 5 }]),
        'build-1',
      ]);
      // What others see meanwhile, and afterwards.
      expect([(await rows.rows()).length, (await rows.dead()).length]).toEqual([1, 0]);
      await client.query('rollback');
    } finally {
      client.release();
    }
    expect([(await rows.rows()).length, (await rows.dead()).length]).toEqual([1, 0]);
  });

  test('a row that cannot be moved stays, is tried later, and stops none of its neighbours', async () => {
    await rows.store('a1', 'b1', 'c1');
    const claimed = await rows.claim(holder);
    const [, bad] = claimed;
    await database.pool.query(
      `alter table whizbang.wh_dead_letters add constraint refuses_one check (source_id <> '${bad?.messageId}')`,
    );
    try {
      expect(await rows.fail(holder, claimed, { permanent: true, reason: 4, error: 'invalid' })).toEqual([
        'dead',
        'retry',
        'dead',
      ]);
      expect(await rows.rows()).toMatchObject([
        { label: 'b1', attempts: 1, error: 'invalid', failure_reason: 4, instance_id: null },
      ]);
      // It does not spin: its next try is a backoff away.
      expect(await rows.claim(holder)).toEqual([]);
      expect((await rows.dead()).map((row) => row.message_type)).toEqual(['a1', 'c1']);
    } finally {
      await database.pool.query('alter table whizbang.wh_dead_letters drop constraint refuses_one');
    }
    await rows.set('scheduled_for = now()', 'b1');
    expect(await rows.fail(holder, [await rows.claimOne(holder)], { permanent: true, reason: 4 })).toEqual(['dead']);
    expect(await rows.rows()).toEqual([]);
  });

  test('what dies again renews its row and keeps what recovery has spent on it', async () => {
    const row = await claimOne();
    await rows.move(holder, [row]);
    const [letter] = await rows.dead();
    const recover = 'select whizbang.recover_dead_letter($1) as done';
    expect((await database.pool.query(recover, [letter?.dead_letter_id])).rows).toEqual([{ done: true }]);
    const again = await rows.claimOne(other);
    expect(again).toMatchObject({ messageId: row.messageId, attempts: 1 });
    await rows.fail(other, [again], { permanent: true, reason: 12, error: 'too large now' });
    expect(await rows.dead()).toMatchObject([
      {
        dead_letter_id: letter?.dead_letter_id,
        recovery_attempts: 1,
        recovery_status: 0,
        recovered_at: null,
        next_recovery_at: null,
        failure_reason: 12,
        error_text: 'too large now',
        dead_lettered_by: other,
      },
    ]);
  });

  // Everything but what a try leaves behind: attempts, lease, schedule.
  const whole = async () => {
    const { rows: found } = await database.pool.query<Record<string, unknown>>(
      `select to_jsonb(o) - array['attempts', 'instance_id', 'lease_expiry', 'scheduled_for', 'status', 'error', 'failure_reason']
         as columns, attempts, status, error, failure_reason, instance_id, scheduled_for, event_data::text as event_data
       from ${rows.table} o`,
    );
    return found[0];
  };

  test('recovery brings the row back whole, with no attempts', async () => {
    await rows.store('a1');
    await rows.set(
      `scope = '{"tenant":"t1"}', is_event = true, flags = 5, status = 3, metadata = '{"streamKey":"a","headers":{"x":"y"}}',
       event_data = '{"n": 1.0, "n2":2}', ${name === 'outbox' ? `created_at` : 'received_at'} = '2026-01-02 03:04:05.678901Z'`,
      'a1',
    );
    if (name === 'outbox') await rows.set(`envelope_type = 'Envelope'`, 'a1');
    const before = await whole();
    await rows.fail(holder, [await rows.claimOne(holder)], { permanent: true, reason: 3, error: 'unreadable' });
    const [letter] = await rows.dead();
    await database.pool.query('select whizbang.recover_dead_letter($1)', [letter?.dead_letter_id]);
    const after = await whole();
    expect(after?.['columns']).toEqual(before?.['columns']);
    // The same text, not just the same value.
    expect(after?.['event_data']).toBe('{"n": 1.0, "n2":2}');
    expect(after).toMatchObject({
      attempts: 0,
      // What was completed before stays, so that the next try can see it.
      status: 3 | 32768,
      error: 'unreadable',
      failure_reason: 3,
      instance_id: null,
      scheduled_for: null,
    });
    expect(await rows.dead()).toMatchObject([{ recovery_status: 3, recovery_attempts: 1 }]);
  });

  test('recovery happens once, however many ask at the same time', async () => {
    await rows.move(holder, [await claimOne()]);
    const [letter] = await rows.dead();
    const answers = await Promise.all(
      Array.from({ length: 6 }, () =>
        database.pool.query<{ done: boolean }>('select whizbang.recover_dead_letter($1) as done', [
          letter?.dead_letter_id,
        ]),
      ),
    );
    expect(answers.filter((answer) => answer.rows[0]?.done === true)).toHaveLength(1);
    expect(await rows.rows()).toHaveLength(1);
    expect(await rows.dead()).toMatchObject([{ recovery_attempts: 1 }]);
  });

  test('what comes back takes its old place in its stream', async () => {
    await rows.store('a1', 'a2', 'a3');
    const [first, ...behind] = await rows.claim(holder);
    await rows.move(holder, first === undefined ? [] : [first]);
    await rows.release(holder, behind);
    const [letter] = await rows.dead();
    await database.pool.query('select whizbang.recover_dead_letter($1)', [letter?.dead_letter_id]);
    expect((await rows.claim(other)).map((row) => row.label)).toEqual(['a1', 'a2', 'a3']);
  });

  test('what comes back from before a parked one does not follow it', async () => {
    await rows.store('a1', 'a2');
    const claimed = await rows.claim(holder);
    await rows.move(holder, claimed, { parks: true });
    await rows.store('a3');
    const parkedOf = async () => (await rows.claim(other)).map(({ label, parked }) => [label, parked]);
    expect(await parkedOf()).toEqual([['a3', true]]);
    await database.pool.query(`delete from ${rows.table}`);
    const [a1] = await rows.dead();
    await database.pool.query('select whizbang.recover_dead_letter($1)', [a1?.dead_letter_id]);
    expect(await parkedOf()).toEqual([['a1', false]]);
  });

  test('parking concerns its own stream and its own table', async () => {
    await rows.store('a1');
    await rows.move(holder, await rows.claim(holder), { parks: true });
    const elsewhere = new WorkRows(name === 'outbox' ? 'inbox' : 'outbox', database.pool);
    await database.pool.query(`delete from ${elsewhere.table}`);
    await elsewhere.store('a1');
    expect(await elsewhere.claim(holder)).toMatchObject([{ label: 'a1', parked: false }]);
    await database.pool.query(`delete from ${elsewhere.table}`);
    await rows.store('b1', '-1');
    expect(await rows.claim(holder)).toMatchObject([{ parked: false }, { parked: false }]);
  });

  describe('a stale holder', () => {
    const attempts: Record<string, (row: Claimed) => Promise<unknown>> = {
      completes: (row) => rows.complete(holder, [row]),
      renews: (row) => rows.renew(holder, [row]),
      releases: (row) => rows.release(holder, [row]),
    };
    const takenOver = async () => {
      const late = await claimOne();
      await rows.set(`lease_expiry = now() - interval '1 second'`, 'a1');
      const next = await rows.claimOne(other);
      expect(next).toMatchObject({ messageId: late.messageId, attempts: 2 });
      return { late, before: await rows.row('a1') };
    };

    test.each(Object.keys(attempts))('%s nothing, and is told so', async (what) => {
      const { late, before } = await takenOver();
      expect(await attempts[what]?.(late)).toEqual([late.messageId]);
      expect(await rows.row('a1')).toEqual(before);
    });

    test('fails and dead-letters nothing, and is told so', async () => {
      const { late, before } = await takenOver();
      expect(await rows.fail(holder, [late])).toEqual(['stale']);
      expect(await rows.fail(holder, [late], { permanent: true })).toEqual(['stale']);
      expect(await rows.fail(holder, [late], {}, { maxAttempts: 1 })).toEqual(['stale']);
      expect(await rows.move(holder, [late])).toEqual([]);
      expect(await rows.row('a1')).toEqual(before);
      expect(await rows.dead()).toEqual([]);
    });

    test('is stale by its attempt, too, when it took the row again itself', async () => {
      const late = await claimOne();
      await rows.set(`lease_expiry = now() - interval '1 second'`, 'a1');
      const [now] = await rows.claim(holder);
      expect(await rows.fail(holder, [late])).toEqual(['stale']);
      expect(await rows.complete(holder, [late])).toEqual([late.messageId]);
      expect(await rows.fail(holder, now === undefined ? [] : [now])).toEqual(['retry']);
    });
  });

  test('a thousand at once ring the sleeping worker once, and nobody while it is awake', async () => {
    const client = await database.pool.connect();
    let rings = 0;
    client.on('notification', () => (rings += 1));
    try {
      const { rows: channel } = await client.query<{ name: string }>(
        `select whizbang.wake_channel('deadletter') as name`,
      );
      await client.query(`listen "${channel[0]?.name}"`);
      const die = async () => {
        await rows.store(...Array.from({ length: 1_000 }, (_, index) => `-${index}`));
        const claimed = await rows.claim(holder, 60, 1_000);
        await rows.fail(holder, claimed, { permanent: true });
        // Notifications come before the answer to a later query on the same connection.
        await client.query('select 1');
        expect((await rows.dead()).length % 1_000).toBe(0);
      };
      await die();
      expect(rings).toBe(0);
      await client.query(`select whizbang.arm_doorbell('deadletter', $1)`, [other]);
      await die();
      expect(rings).toBe(1);
    } finally {
      await client.query('unlisten *');
      await client.query('delete from whizbang.wh_doorbells');
      client.removeAllListeners('notification');
      client.release();
    }
  });

  test('suspects are claimed alone, from the second lease that ran out on', async () => {
    await rows.store('a1', 'b1', 'c1');
    const expire = () => database.pool.query(`update ${rows.table} set lease_expiry = now() - interval '1 second'`);
    expect(await rows.claim(holder)).toHaveLength(3);
    await expire();
    const second = await rows.claim(other);
    expect(second.map((row) => [row.label, row.attempts, row.suspect])).toEqual([
      ['a1', 2, false],
      ['b1', 2, false],
      ['c1', 2, false],
    ]);
    expect(await rows.row('a1')).toMatchObject({ failure_reason: 6, error: expect.stringContaining(holder) as string });
    await expire();
    const alone = await rows.claim(holder);
    expect(alone.map((row) => [row.label, row.attempts, row.suspect])).toEqual([['a1', 3, true]]);
    // The others were not touched.
    expect((await rows.row('b1')).attempts).toBe(2);
  });
});

test('deliveries that cannot be read are kept once with their bytes, and ring', async () => {
  const client = await database.pool.connect();
  try {
    const sourceId = randomUUID();
    const body = Buffer.from([0xff, 0x00, 0xfe]);
    const keep = async () =>
      (
        await client.query<{ stored: number }>(
          `select whizbang.store_undecodable_deliveries($1::uuid[], $2, $3, $4::bytea[], $5, $6, 3, 'build-1', $7) as stored`,
          [[sourceId], ['unknown'], ['orders'], [body], ['{}'], ['unreadable'], holder],
        )
      ).rows[0]?.stored;
    await client.query(`select whizbang.arm_doorbell('deadletter', $1)`, [other]);
    const ring = new Promise((resolve) => client.once('notification', resolve));
    await client.query(`do $$ begin execute format('listen %I', whizbang.wake_channel('deadletter')); end $$`);
    expect(await keep()).toBe(1);
    expect(await keep()).toBe(0);
    await ring;
    const { rows } = await client.query<{ raw_body: Buffer; envelope: unknown }>(
      'select raw_body, envelope from whizbang.wh_dead_letters where source_id = $1',
      [sourceId],
    );
    expect(rows).toEqual([{ raw_body: body, envelope: null }]);
    const { rows: answers } = await client.query(
      `select whizbang.recover_dead_letter(dead_letter_id) as recovered, whizbang.retry_dead_letter(dead_letter_id, 'ann') as retried
       from whizbang.wh_dead_letters where source_id = $1`,
      [sourceId],
    );
    expect(answers).toEqual([{ recovered: false, retried: false }]);
  } finally {
    await client.query('unlisten *');
    await client.query('delete from whizbang.wh_doorbells');
    client.release();
  }
});
