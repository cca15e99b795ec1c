import { randomBytes, randomUUID } from 'node:crypto';

import { createWhizbang } from '@whizbang/core';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';

import { RecordingLogger, insertRows, operatorsDatabase, service } from './service.js';

test('a role that may only read, in sessions that may not write, sees how the service stands', async () => {
  const database = await operatorsDatabase();
  const role = `reader_${randomBytes(6).toString('hex')}`;
  await database.query(`create role ${role} login password 'secret'`);
  await database.query(`grant usage on schema whizbang to ${role}`);
  await database.query(`grant select on all tables in schema whizbang to ${role}`);
  const [waiting = ''] = await insertRows(database, 'wh_outbox', [{ attempts: 1 }]);
  const [dead = ''] = await insertRows(database, 'wh_dead_letters', [{ error_text: 'it broke' }]);
  const url = new URL(database.url);
  url.username = role;
  url.password = 'secret';
  // As on a standby, where nobody may write.
  const pool = new pg.Pool({ connectionString: url.href, max: 2, options: '-c default_transaction_read_only=on' });
  pool.on('error', () => undefined);
  onTestFinished(async () => {
    await pool.end();
    await database.query(`drop owned by ${role}`);
    await database.query(`drop role ${role}`);
    await database.close();
  });
  await expect(pool.query('create table mine (a integer)')).rejects.toThrow('read-only');

  const reader = await createWhizbang({ service: 'desk', database: pool, broker: `memory:${randomUUID()}` });
  onTestFinished(async () => void (await reader.stop()));
  expect(await reader.status()).toMatchObject({ elected: false });
  expect(await reader.backlog()).toMatchObject({ outbox: { pending: 1 } });
  expect(await reader.explain(waiting)).toMatchObject({ where: 'outbox' });
  expect((await reader.deadLetters.list()).entries.map((entry) => entry.deadLetterId)).toEqual([dead]);
  expect(await reader.deadLetters.show(dead)).toMatchObject({ errorText: 'it broke' });
  await expect(reader.deadLetters.retry(dead, 'me')).rejects.toThrow(/read-only|permission denied/);
});

test('an instance goes on, and another of its version starts, beside functions of a newer version', async () => {
  const database = await operatorsDatabase();
  onTestFinished(() => database.close());
  const first = await service(database.url);
  await first.start();
  // What a newer migrate() leaves, as far as an older library can see it.
  await database.query(
    `update whizbang.wh_schema_migrations set library_version = '99.0.0', checksum = 'newer' where kind = 'function'`,
  );
  await database.query(
    `insert into whizbang.wh_schema_migrations (kind, name, checksum, library_version) values ('function', 'of_tomorrow', 'x', '99.0.0')`,
  );
  const logger = new RecordingLogger();
  const second = await service(database.url, { logger });
  await second.start();
  expect(logger.warnings('migrated by a newer version')).toMatchObject([{ fields: { migratedBy: '99.0.0' } }]);
  expect(await first.status()).toMatchObject({ brokerReady: true });
  // It does not take the newer functions back.
  await expect(second.migrate()).rejects.toMatchObject({ code: 'WHIZBANG_SCHEMA_NEWER' });
});
