import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { migrate } from '@whizbang/core';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { testDatabase } from '../fixtures/test-services.js';
import { WorkTable } from './work-table.js';

const me = '0190aaaa-0000-7000-8000-000000000001';

async function emptyDatabase(): Promise<{ url: string; pool: pg.Pool }> {
  const database = testDatabase();
  const { url } = await database;
  const pool = new pg.Pool({ connectionString: url, max: 12 });
  pool.on('error', () => undefined);
  onTestFinished(() => pool.end());
  return { url, pool };
}

const objectsOf = async (pool: pg.Pool, schema: string) => {
  const { rows } = await pool.query<{ name: string }>(
    `select relname as name from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = $1
     union all
     select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = pronamespace where nspname = $1
     order by 1`,
    [schema],
  );
  return rows.map((row) => row.name);
};

/** The whole way of one message, to see that nothing in the schema looks elsewhere. */
async function seeItWork(pool: pg.Pool, schema: string): Promise<void> {
  for (const name of ['outbox', 'inbox'] as const) {
    const table = new WorkTable(name, pool, `${pg.escapeIdentifier(schema)}.`);
    await table.store(['a1', 'a2', 'b1']);
    const rows = await table.claim(me);
    expect(rows.map((row) => row.label)).toEqual(['a1', 'a2', 'b1']);
    expect(await table.renew(me, rows)).toEqual([]);
    expect(await table.fail(me, rows.slice(0, 1))).toEqual([]);
    expect(await table.release(me, rows.slice(1, 2))).toEqual([]);
    expect(await table.complete(me, rows.slice(2))).toEqual([]);
    expect(await table.claim(me)).toEqual([]);
    expect(await table.unblockStranded()).toBe(0);
  }
  const quoted = pg.escapeIdentifier(schema);
  await pool.query(`select ${quoted}.record_heartbeat($1, 'orders', 'here', 1)`, [me]);
  await pool.query(`select ${quoted}.arm_doorbell('outbox', $1), ${quoted}.disarm_doorbell('outbox', $1)`, [me]);
  await pool.query(`select ${quoted}.deregister_instance($1), ${quoted}.lock_streams(array[$1::uuid])`, [me]);
  await pool.query(`select * from ${quoted}.backlog_statistics(), ${quoted}.wh_active_streams`);
}

test.each(['a URL', 'a pool'])(
  'a connection that is cut while it waits fails the migration, and ends no process (%s)',
  async (given) => {
    const { url, pool } = await emptyDatabase();
    const lock = await pool.connect();
    await lock.query('begin');
    await lock.query(`select pg_advisory_xact_lock(hashtext('whizbang migrate'), hashtext('whizbang'))`);
    const own = new pg.Pool({ connectionString: url, max: 1 });
    own.on('error', () => undefined);
    onTestFinished(() => own.end());
    const migrating = migrate({ database: given === 'a URL' ? url : own }).catch((error: unknown) => error);
    // It asks for the lock again and again.
    const waiting = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and query like '%pg_try_advisory_xact_lock%' and pid <> pg_backend_pid()`;
    await waitFor(async () => ((await pool.query(waiting)).rowCount ?? 0) > 0, {
      message: 'it to wait, and to be cut',
    });
    expect(await migrating).toBeInstanceOf(Error);
    await lock.query('rollback');
    lock.release();
    expect((await migrate({ database: own })).applied.length).toBeGreaterThan(0);
  },
);

test('ten processes migrate at once: one does it, all succeed', async () => {
  const { url, pool } = await emptyDatabase();
  const results = await Promise.all(
    Array.from({ length: 10 }, (_, index) => migrate({ database: index % 2 === 0 ? url : pool })),
  );
  const [first, ...others] = results.map(({ applied }) => applied.length).toSorted((a, b) => b - a);
  expect(first).toBeGreaterThan(20);
  expect(others).toEqual(Array.from({ length: 9 }, () => 0));
  await seeItWork(pool, 'whizbang');
});

test('ten processes migrate at once though sessions here begin at repeatable read', async () => {
  const { url, pool } = await emptyDatabase();
  const options = encodeURIComponent('-c default_transaction_isolation=repeatable\\ read');
  const strict = `${url}?options=${options}`;
  await Promise.all(Array.from({ length: 10 }, () => migrate({ database: strict })));
  expect(await migrate({ database: pool })).toEqual({ applied: [] });
});

test.each([
  'My-App',
  'with "quotes"',
  `it's`,
  'do$$llars',
  String.raw`back\slash`,
  'two words.and a dot',
  'select',
  'wh.whizbang.wh',
  `o'whizbang'o`,
  'ünïcödé 🚀',
  'x'.repeat(63),
])('a schema may be called %s', async (schema) => {
  const { pool } = await emptyDatabase();
  expect((await migrate({ database: pool, schema })).applied.length).toBeGreaterThan(20);
  expect(await migrate({ database: pool, schema })).toEqual({ applied: [] });
  await seeItWork(pool, schema);
  expect(await objectsOf(pool, 'whizbang')).toEqual([]);
});

test.each(['', 'x'.repeat(64), 'null\0', 'two\nlines', '$whizbang_body$'])(
  'a schema may not be called %j, and that is said before anything is connected',
  async (schema) => {
    const migrating = migrate({ database: 'postgres://nowhere.invalid/nothing', schema });
    await expect(migrating).rejects.toMatchObject({ code: 'WHIZBANG_CONFIGURATION' });
  },
);

test('a table of the user with one of our names ends the migration and nothing is left of it', async () => {
  const { pool } = await emptyDatabase();
  await pool.query('create schema whizbang create table wh_dead_letters (mine text)');
  await expect(migrate({ database: pool })).rejects.toThrow('already exists');
  expect(await objectsOf(pool, 'whizbang')).toEqual(['wh_dead_letters']);
  await pool.query('drop table whizbang.wh_dead_letters');
  await migrate({ database: pool });
  await seeItWork(pool, 'whizbang');
});

test('two schemas live in one database without seeing each other', async () => {
  const { pool } = await emptyDatabase();
  await Promise.all(['one', 'two'].map((schema) => migrate({ database: pool, schema })));
  const one = new WorkTable('outbox', pool, 'one.');
  const two = new WorkTable('outbox', pool, 'two.');
  await one.store(['a1']);
  expect(await two.claim(me)).toEqual([]);
  expect(await one.claimLabels(me)).toEqual(['a1']);
});

describe('whatever the search_path is', () => {
  /** A pool whose sessions begin with this search_path, as those of a role may. */
  const poolWith = (url: string, searchPath: string) => {
    const pool = new pg.Pool({ connectionString: url, max: 4, options: `-c search_path=${searchPath}` });
    pool.on('error', () => undefined);
    onTestFinished(() => pool.end());
    return pool;
  };

  test.each(['whizbang', 'My-App'])('with none, %s is migrated, found again and works', async (schema) => {
    const { url } = await emptyDatabase();
    const pool = poolWith(url, '""');
    expect((await migrate({ database: pool, schema })).applied.length).toBeGreaterThan(20);
    expect(await migrate({ database: pool, schema })).toEqual({ applied: [] });
    await seeItWork(pool, schema);
  });

  test('with a schema first that has tables and functions of our names, those are never used', async () => {
    const { url, pool } = await emptyDatabase();
    await migrate({ database: pool });
    // Its functions fail when they are called, its tables when they are written to.
    await pool.query(`create schema evil; create function evil.trap() returns trigger language plpgsql
      as $trap$ begin raise exception 'an object of schema evil was used'; end $trap$`);
    await pool.query(`do $do$ declare t record; f record; begin
      for t in select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where n.nspname = 'whizbang' and c.relkind = 'r' loop
        execute format('create table evil.%I (like whizbang.%I including all)', t.relname, t.relname);
        execute format('create trigger trap before insert or update or delete on evil.%I execute function evil.trap()', t.relname);
      end loop;
      for f in select p.proname, oidvectortypes(p.proargtypes) as parameters from pg_proc p
               join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'whizbang' and p.prokind = 'f' loop
        execute format('create function evil.%I(%s) returns text language plpgsql as %L', f.proname, f.parameters,
                       'begin raise exception ''an object of schema evil was used''; end');
      end loop;
    end $do$`);
    const misled = poolWith(url, 'evil,public');
    await expect(misled.query('insert into wh_doorbells default values')).rejects.toThrow(/schema evil|null value/);
    expect(await migrate({ database: misled })).toEqual({ applied: [] });
    await seeItWork(misled, 'whizbang');
    expect((await migrate({ database: misled, schema: 'another' })).applied.length).toBeGreaterThan(20);
    await seeItWork(misled, 'another');
  });
});

describe('from each earlier migration, with rows in every state', () => {
  const folder = fileURLToPath(new URL('../../sql/migrations/', import.meta.url));
  const files = readdirSync(folder)
    .filter((file) => file.endsWith('.sql'))
    .toSorted();
  // The first has everything that a row needs; those after it are what an upgrade meets.
  const earlier = files.slice(0, -1).map((file, index) => [file, files.slice(0, index + 1)] as const);

  test.each(earlier)('%s', async (_, applied) => {
    const { pool } = await emptyDatabase();
    await pool.query(`create schema whizbang; create table whizbang.wh_schema_migrations (
      kind text not null, name text not null, checksum text not null, library_version text not null,
      applied_at timestamptz not null default now(), primary key (kind, name))`);
    for (const file of applied) {
      const text = readFileSync(folder + file, 'utf8');
      await pool.query(text);
      await pool.query(`insert into whizbang.wh_schema_migrations values ('migration', $1, $2, '0.0.1')`, [
        file.replace(/\.sql$/, ''),
        createHash('sha256').update(text).digest('hex'),
      ]);
    }
    await pool.query(`
      insert into whizbang.wh_outbox (message_id, destination, message_type, event_data, stream_id, scheduled_for, attempts, instance_id, lease_expiry)
      select gen_random_uuid(), 'orders', label, '{"n": 1}', stream, scheduled, attempts, holder, expiry
      from (values ('waits', null::uuid, null::timestamptz, 0, null::uuid, null::timestamptz),
                   ('retries', '00000000-0000-4000-8000-00000000000a', now() + interval '1 hour', 3, null, null),
                   ('follows', '00000000-0000-4000-8000-00000000000a', null, 0, null, null),
                   ('leased', null, null, 1, gen_random_uuid(), now() + interval '1 hour'),
                   ('expired', null, null, 1, gen_random_uuid(), now() - interval '1 hour'),
                   ('parked', null, 'infinity', 0, null, null)) r (label, stream, scheduled, attempts, holder, expiry);
      insert into whizbang.wh_inbox (message_id, handler_name, message_type, event_data)
      values (gen_random_uuid(), 'shipping/waits', 'waits', '{"n": 1}');
      insert into whizbang.wh_dead_letters (dead_letter_id, source_table, source_id, message_type, envelope, failure_reason, attempts_when_dlq, generation, source_sequence)
      values (gen_random_uuid(), 'wh_outbox', gen_random_uuid(), 'dead', '{"n": 1}', 2, 10, 'before', 1)`);

    const upgraded = await migrate({ database: pool });
    expect(upgraded.applied.filter((name) => /^\d{4}_/.test(name))).toEqual(
      files.slice(applied.length).map((file) => file.replace(/\.sql$/, '')),
    );
    expect(await migrate({ database: pool })).toEqual({ applied: [] });
    const outbox = new WorkTable('outbox', pool);
    expect((await outbox.claimLabels(me)).toSorted()).toEqual(['expired', 'waits']);
    expect(await new WorkTable('inbox', pool).claimLabels(me)).toEqual(['waits']);
    const { rows } = await pool.query<{ recovered: boolean }>(
      'select whizbang.recover_dead_letter(dead_letter_id) as recovered from whizbang.wh_dead_letters',
    );
    expect(rows).toEqual([{ recovered: true }]);
    expect(await outbox.claimLabels(me)).toEqual(['dead']);
  });
});

describe('when the schema is not what this library would make', () => {
  const migrated = async () => {
    const { pool } = await emptyDatabase();
    await migrate({ database: pool });
    return pool;
  };

  test('a newer one is refused', async () => {
    const pool = await migrated();
    await pool.query(
      `insert into whizbang.wh_schema_migrations (kind, name, checksum, library_version) values ('migration', '0002_future', 'x', '99.0.0')`,
    );
    await expect(migrate({ database: pool })).rejects.toMatchObject({
      code: 'WHIZBANG_SCHEMA_NEWER',
      message: expect.stringContaining('99.0.0') as string,
    });
  });

  test('one with a changed migration is refused', async () => {
    const pool = await migrated();
    await pool.query(`update whizbang.wh_schema_migrations set checksum = 'x' where kind = 'migration'`);
    await expect(migrate({ database: pool })).rejects.toMatchObject({ code: 'WHIZBANG_SCHEMA_CHANGED' });
  });

  test('an older function is replaced, also when its parameters were others, and data stays', async () => {
    const pool = await migrated();
    const table = new WorkTable('outbox', pool);
    await table.store(['a1']);
    await pool.query(`drop function whizbang.release_outbox(uuid, uuid[], integer[])`);
    await pool.query(`create function whizbang.release_outbox(text) returns text language sql as 'select $1'`);
    await pool.query(`update whizbang.wh_schema_migrations set checksum = 'older' where name = 'release_outbox'`);
    expect(await migrate({ database: pool })).toEqual({ applied: ['release_outbox'] });
    expect(await table.release(me, await table.claim(me))).toEqual([]);
    const functions = (await objectsOf(pool, 'whizbang')).filter((name) => name.includes('release_outbox'));
    expect(functions).toHaveLength(1);
  });
});

test('a wrong password, a missing database and an unreachable server are one clear sentence each', async () => {
  const { url } = await emptyDatabase();
  const other = (change: (target: URL) => void) => {
    const target = new URL(url);
    change(target);
    return target.href;
  };
  const sentences = [
    [other((target) => (target.pathname = '/no_such_database')), /The database does not exist/],
    [other((target) => (target.port = '1')), /PostgreSQL cannot be reached/],
  ] as const;
  for (const [database, sentence] of sentences) {
    await expect(migrate({ database })).rejects.toMatchObject({
      code: 'WHIZBANG_DATABASE_UNAVAILABLE',
      message: expect.stringMatching(sentence) as string,
    });
  }
});
