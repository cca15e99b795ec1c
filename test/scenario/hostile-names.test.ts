import { PermanentError, defineMessage, migrate } from '@whizbang/core';
import { expect, test } from 'vitest';
import { z } from 'zod';

import { testDatabase } from '../fixtures/test-services.js';
import { waitFor } from '../fixtures/wait-for.js';
import { testPool, testService } from './test-service.js';

// What would end a literal or an identifier, in a name that still fits where names have 63 bytes.
const hostile = `'); drop table precious; --"; $$ \\ %s {0} \${x}`;

test('a name that tries to be SQL is a name: schema, stream, header, search, actor and note; those of brokers are refused', async () => {
  const { url } = await testDatabase();
  const pool = testPool(url);
  await pool.query('create table precious (kept integer)');
  await migrate({ database: pool, schema: hostile });
  const whizbang = await testService({
    database: url,
    schema: hostile,
    broker: 'memory:hostile-names',
  });
  const schema = z.object({ text: z.string() });
  // These are names at brokers, too, which have rules of their own.
  await expect(testService({ database: url, service: hostile })).rejects.toThrow(/service: must be letters/);
  expect(() => defineMessage(hostile, { schema, destination: hostile })).toThrow(/type must be letters.*destination/);
  const Hostile = defineMessage('hostile', { schema, destination: 'hostile', stream: ({ text }) => text });
  whizbang.handle(Hostile, ({ text }) => {
    throw new PermanentError(text);
  });
  await whizbang.start();
  const headers = { note: hostile };
  await whizbang.publishNow(Hostile, { text: hostile }, { headers, correlationId: hostile });

  const dead = whizbang.deadLetters;
  await waitFor(async () => (await dead.count()) === 1, { message: 'the dead letter', timeoutMs: 30_000 });
  const filter = { messageType: 'hostile', text: hostile };
  const [entry] = (await dead.list(filter)).entries;
  expect(entry?.messageType).toBe('hostile');
  for (const field of ['messageType', 'destination', 'fingerprint'] as const) {
    expect(await dead.count({ [field]: hostile })).toBe(0);
  }
  const id = entry?.deadLetterId ?? '';
  expect(await dead.note(id, hostile, hostile)).toBe(true);
  expect(await dead.hold(id, hostile)).toBe(true);
  const shown = await dead.show(id);
  expect(JSON.stringify(shown)).toContain(JSON.stringify(hostile).slice(1, -1));
  expect(JSON.parse(shown?.eventData ?? '')).toEqual({ text: hostile });
  await expect(dead.show(hostile)).rejects.toThrow('uuid');
  expect((await whizbang.status()).instancesAlive).toBe(1);

  await whizbang.stop();
  expect((await pool.query('select from precious')).rowCount).toBe(0);
});
