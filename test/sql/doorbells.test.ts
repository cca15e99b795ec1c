import { migrate } from '@whizbang/core';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { WorkTable, inTransaction, migratedDatabase, workTables } from './work-table.js';

const sleeper = '0190aaaa-0000-7000-8000-000000000001';
const older = '0190aaaa-0000-7000-8000-000000000002';
const younger = '0190aaaa-0000-7000-8000-000000000003';

let database: Awaited<ReturnType<typeof migratedDatabase>>;
let listener: pg.Client;
let heard: { channel: string; payload: string }[] = [];

const channelOf = async (name: string, schema = 'whizbang') => {
  const { rows } = await database.pool.query<{ channel: string }>(
    `select ${pg.escapeIdentifier(schema)}.wake_channel($1) as channel`,
    [name],
  );
  return rows[0]?.channel ?? '';
};

beforeAll(async () => {
  database = await migratedDatabase();
  await migrate({ database: database.pool, schema: 'Second "app"' });
  listener = new pg.Client({ connectionString: database.url });
  listener.on('error', () => undefined);
  listener.on('notification', ({ channel, payload }) => heard.push({ channel, payload: payload ?? '' }));
  await listener.connect();
  for (const schema of ['whizbang', 'Second "app"']) {
    for (const name of workTables) await listener.query(`listen ${await channelOf(name, schema)}`);
  }
  await listener.query('listen all_of_before');
});
afterAll(async () => {
  await listener.end();
  await database.close();
});

/** What was rung by what has committed so far: notifications arrive in the order of the commits. */
async function rings(): Promise<{ channel: string; payload: string }[]> {
  const marker = new Promise<void>((resolve) => {
    listener.on('notification', function onMarker({ channel }) {
      if (channel !== 'all_of_before') return;
      listener.off('notification', onMarker);
      resolve();
    });
  });
  await database.pool.query(`notify all_of_before`);
  await marker;
  const all = heard.filter(({ channel }) => channel !== 'all_of_before');
  heard = [];
  return all;
}

describe.each(workTables)('the doorbell of the %s', (name) => {
  let table: WorkTable;
  let ring: { channel: string; payload: string };
  const doorbell = (call: 'arm_doorbell' | 'disarm_doorbell', instance: string) =>
    database.pool.query(`select whizbang.${call}($1, $2)`, [name, instance]);

  beforeEach(async () => {
    table = new WorkTable(name, database.pool);
    await table.empty();
    await database.pool.query('delete from whizbang.wh_doorbells');
    ring = { channel: await channelOf(name), payload: '' };
    await rings();
  });

  test('is silent while nobody sleeps', async () => {
    await table.store(['a1']);
    expect(await rings()).toEqual([]);
  });

  test('rings when somebody sleeps, once for each commit, however much it stored', async () => {
    await doorbell('arm_doorbell', sleeper);
    await inTransaction(database.pool, async (client) => {
      for (let count = 0; count < 20; count += 1) await table.store(['a1', '-1'], { on: client });
    });
    expect(await rings()).toEqual([ring]);
    await table.store(['b1']);
    expect(await rings()).toEqual([ring]);
  });

  test('is silent about what was rolled back', async () => {
    await doorbell('arm_doorbell', sleeper);
    const rolledBack = inTransaction(database.pool, async (client) => {
      await table.store(['a1'], { on: client });
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    expect(await rings()).toEqual([]);
  });

  test('is silent for the sleepers of the other table', async () => {
    await database.pool.query(`select whizbang.arm_doorbell($1, $2)`, [
      name === 'outbox' ? 'inbox' : 'outbox',
      sleeper,
    ]);
    await table.store(['a1']);
    expect(await rings()).toEqual([]);
  });

  test('is silent when everything that is stored was there before', async () => {
    await table.store(['a1']);
    const [row] = await table.states();
    await doorbell('arm_doorbell', sleeper);
    const again = [[row?.message_id], ['orders'], ['a1'], ['{}'], ['{}'], [null]];
    await (name === 'outbox'
      ? database.pool.query(
          'select whizbang.store_outbox_messages($1::uuid[], $2, $3, $4, $5, $6::uuid[], $7::timestamptz[])',
          [...again, [null]],
        )
      : database.pool.query('select whizbang.store_inbox_messages($1::uuid[], $2, $3, $4, $5, $6, $7::uuid[])', [
          [row?.message_id],
          ['orders'],
          ...again.slice(1),
        ]));
    expect(await rings()).toEqual([]);
  });

  test.each(['repeatable read', 'serializable'])('always rings for a writer at %s', async (isolation) => {
    await inTransaction(database.pool, (client) => table.store(['a1'], { on: client }), isolation);
    expect(await rings()).toEqual([ring]);
  });

  test('rings for a sleeper who armed after the writer began and before it stored', async () => {
    await inTransaction(database.pool, async (client) => {
      await client.query('select 1');
      await doorbell('arm_doorbell', sleeper);
      await table.store(['a1'], { on: client });
    });
    expect(await rings()).toEqual([ring]);
  });

  test('never wakes the sleepers of another schema in the same database', async () => {
    const second = new WorkTable(name, database.pool, '"Second ""app""".');
    await doorbell('arm_doorbell', sleeper);
    await second.store(['a1']);
    expect(await rings()).toEqual([]);
    await database.pool.query(`select ${second.prefix}arm_doorbell($1, $2)`, [name, sleeper]);
    await second.store(['a2']);
    const [only, ...more] = await rings();
    expect(only?.channel).toBe(await channelOf(name, 'Second "app"'));
    expect(only?.channel).not.toBe(ring.channel);
    expect(more).toEqual([]);
    await second.empty();
    await database.pool.query(`delete from ${second.prefix}wh_doorbells`);
  });

  test('is disarmed for one alone: whoever stops, or wakes by the clock, has not rung the others', async () => {
    await doorbell('arm_doorbell', older);
    await doorbell('arm_doorbell', sleeper);
    await doorbell('arm_doorbell', younger);
    await doorbell('disarm_doorbell', sleeper);
    const { rows } = await database.pool.query('select instance_id from whizbang.wh_doorbells order by armed_at');
    expect(rows).toEqual([{ instance_id: older }, { instance_id: younger }]);
    await doorbell('disarm_doorbell', younger);
    await table.store(['a1']);
    expect(await rings()).toEqual([ring]);
    await doorbell('disarm_doorbell', older);
    await table.store(['a2']);
    expect(await rings()).toEqual([]);
  });

  test('stays as it is when somebody disarms who never armed', async () => {
    await doorbell('arm_doorbell', sleeper);
    await doorbell('disarm_doorbell', younger);
    await table.store(['a1']);
    expect(await rings()).toEqual([ring]);
  });

  test('is rung for the others by whoever claimed as many as it may', async () => {
    await table.store(['-1', '-2', '-3']);
    await doorbell('arm_doorbell', sleeper);
    const claim = (limit: number) => {
      const settlements = name === 'outbox' ? `'{}', '{}', false, '[]', '{}'` : `'[]', '{}', '{}', '{}'`;
      return database.pool.query(
        `select outcome from whizbang.exchange_${name}_work($1, ${settlements}, '{}', '{}', $2, 1000000, 60, false, '{}', '{}', '{}')`,
        [older, limit],
      );
    };
    await claim(2);
    expect(await rings()).toEqual([ring]);
    await claim(2);
    expect(await rings()).toEqual([]);
  });

  test('is rung by whoever leaves: what it has put down is for the others', async () => {
    const leave = () => database.pool.query('select whizbang.deregister_instance($1)', [sleeper]);
    await doorbell('arm_doorbell', sleeper);
    await leave();
    expect(await rings()).toEqual([]);
    await doorbell('arm_doorbell', older);
    await leave();
    expect(await rings()).toEqual([ring]);
  });
});

test('an instance that has been silent is forgotten by the next heartbeat, and its doorbells with it', async () => {
  const beat = (instance: string) =>
    database.pool.query(`select whizbang.record_heartbeat($1, 'orders', 'here', 1)`, [instance]);
  await database.pool.query('delete from whizbang.wh_doorbells');
  await beat(older);
  await database.pool.query(`select whizbang.arm_doorbell('outbox', $1)`, [older]);
  await beat(sleeper);
  expect(await doorbellsAndInstances()).toEqual([[older], [sleeper, older]]);
  await database.pool.query(
    `update whizbang.wh_service_instances set last_heartbeat_at = now() - interval '36 seconds' where instance_id = $1`,
    [older],
  );
  await beat(sleeper);
  expect(await doorbellsAndInstances()).toEqual([[], [sleeper]]);
  await database.pool.query('select whizbang.deregister_instance($1)', [sleeper]);
  expect(await doorbellsAndInstances()).toEqual([[], []]);
});

test('two instances that come back from a long silence at the same time do not deadlock over each other', async () => {
  for (const instance of [older, sleeper]) {
    await database.pool.query(`select whizbang.record_heartbeat($1, 'orders', 'here', 1)`, [instance]);
  }
  await database.pool.query(`update whizbang.wh_service_instances set last_heartbeat_at = now() - interval '1 hour'`);
  await inTransaction(database.pool, async (first) => {
    // The first has renewed its own entry and not yet looked for silent ones.
    await first.query('update whizbang.wh_service_instances set last_heartbeat_at = now() where instance_id = $1', [
      older,
    ]);
    await database.pool.query(`select whizbang.record_heartbeat($1, 'orders', 'here', 1)`, [sleeper]);
    await first.query(`select whizbang.record_heartbeat($1, 'orders', 'here', 1)`, [older]);
  });
  expect(await doorbellsAndInstances()).toEqual([[], [sleeper, older]]);
});

async function doorbellsAndInstances(): Promise<string[][]> {
  const lists = [];
  for (const table of ['wh_doorbells', 'wh_service_instances']) {
    const { rows } = await database.pool.query<{ instance_id: string }>(
      `select instance_id from whizbang.${table} order by 1`,
    );
    lists.push(rows.map((row) => row.instance_id));
  }
  return lists;
}
