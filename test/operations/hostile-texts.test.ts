import { DeadLetterRecoveryStatus, createWhizbang, defineMessage } from '@whizbang/core';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/wait-for.js';
import { insertRows, operatorsDatabase } from './service.js';

const hostile = [
  `mark' or '1'='1`,
  `mark'); drop table whizbang.wh_outbox; --`,
  `mark" ; delete from whizbang.wh_dead_letters; --`,
  String.raw`mark\'; select pg_sleep(100); --`,
  'mark$$; drop schema whizbang cascade; $$',
  'mark $1 %s ${0} a->>b',
  'mark\n; notify wh; --',
];

test('no text that somebody gives us becomes a part of a statement', async () => {
  const database = await operatorsDatabase();
  onTestFinished(() => database.close());
  await insertRows(database, 'wh_dead_letters', [{ error_text: 'it broke' }]);
  const texts = new Set<string>();
  const pool = new pg.Pool({ connectionString: database.url, max: 16 });
  pool.on('error', () => undefined);
  onTestFinished(() => pool.end());
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...parameters: unknown[]) => unknown;
    Object.assign(client, {
      query: (...parameters: unknown[]) => {
        const [first] = parameters;
        texts.add(typeof first === 'string' ? first : String((first as { text?: string }).text));
        return query(...parameters);
      },
    });
  });
  const Note = defineMessage('notes.note-taken', {
    schema: z.record(z.string(), z.unknown()),
    destination: 'notes',
    stream: ({ key }) => String(key),
  });
  const whizbang = await createWhizbang({
    service: 'desk',
    database: pool,
    broker: 'memory:hostile',
    generation: `mark' generation`,
    deadLetters: { enabled: false },
  });
  onTestFinished(async () => void (await whizbang.stop()));
  const handled: unknown[] = [];
  whizbang.handle(Note, (payload, { streamKey, headers, correlationId }) => {
    handled.push([payload['text'], streamKey, headers['x-text'], correlationId]);
    if (payload['fails'] === true) throw new Error(String(payload['text']));
  });
  await whizbang.start();

  const { deadLetters } = whizbang;
  const rowsBefore = await deadLetters.count();
  const [entry] = (await deadLetters.list()).entries;
  for (const text of hostile) {
    const options = { headers: { 'x-text': text }, correlationId: text };
    await whizbang.publishNow(Note, { key: text, text, [text]: text }, options);
    await whizbang.publishNow(Note, { key: `${text} fails`, text, fails: true }, options);
    for (const name of ['messageType', 'destination', 'fingerprint', 'text', 'streamId', 'sourceTable'] as const) {
      // What the column cannot hold (a stream id is a UUID) is refused by the server as a value.
      const found = await deadLetters.count({ [name]: text }).catch((error: unknown) => error);
      expect(found === 0 || found instanceof Error, `${name}: ${String(found)}`).toBe(true);
    }
    await deadLetters.note(entry?.deadLetterId ?? '', text, text);
    await deadLetters.holdAll({ text, status: DeadLetterRecoveryStatus.Pending }, { actor: text });
    await deadLetters.retry(text, text).catch(() => undefined);
    await deadLetters.list({}, { after: text }).catch(() => undefined);
    await whizbang.explain(text);
  }
  await waitFor(() => handled.length >= 2 * hostile.length, { message: 'the messages', timeoutMs: 20_000 });
  for (const text of hostile) expect(handled).toContainEqual([text, text, text, text]);
  expect(await deadLetters.count()).toBe(rowsBefore);
  expect((await deadLetters.show(entry?.deadLetterId ?? ''))?.operatorNotes).toContain(hostile[0]);
  const { rows } = await database.pool.query<{ error: string }>(
    'select error from whizbang.wh_inbox where error is not null',
  );
  expect(rows.length).toBeGreaterThan(0);
  expect(texts.size).toBeGreaterThan(10);
  expect([...texts].filter((text) => text.includes('mark'))).toEqual([]);
});
