import { randomUUID } from 'node:crypto';

import { describe, expect, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { brokers } from './brokers/index.js';
import { NoteTaken } from './orders.js';
import { migratedDatabase, testService } from './test-service.js';

/** What somebody may write into the table himself, around `publish` and the function for other languages. */
const metadata: readonly (readonly [what: string, text: string])[] = [
  ['a number as header', '{"headers": {"x-n": 5}}'],
  ['a number beyond every range', '{"headers": {"x-n": 1e400}}'],
  ['null as header', '{"headers": {"x-n": null}}'],
  ['an object as header', '{"headers": {"x-n": {"deep": [1]}}}'],
  ['a list of headers', '{"headers": ["a", "b"]}'],
  ['a text instead of headers', '{"headers": "x-n: 5"}'],
  ['NUL in a header', String.raw`{"headers": {"x-n": "a\u0000b"}}`],
  ['half a surrogate pair in a header', String.raw`{"headers": {"x-n": "\ud83d"}}`],
  ['the name of a header with 300 bytes', `{"headers": {"${'n'.repeat(300)}": "x"}}`],
  ['a header without a name', '{"headers": {"": "x"}}'],
  ['headers that differ by case', '{"headers": {"X-Case": "1", "x-case": "2"}}'],
  ['a number as stream key', '{"streamKey": 7}'],
  ['NUL in the stream key', String.raw`{"streamKey": "a\u0000b"}`],
  ['an object as correlation id', '{"correlationId": {"id": 1}}'],
  ['a number as time', '{"time": 12345}'],
  ['no time', '{"time": "yesterday"}'],
  ['a list as metadata', '[]'],
  ['null as metadata', 'null'],
  ['a text as metadata', '"text"'],
];

describe.each(brokers)('rows that went around publish, to $name', (kind) => {
  test('are carried or dead, each by itself, and no other row notices', async () => {
    const broker = await kind.shared();
    const { url, pool } = await migratedDatabase();
    const whizbang = await testService({ database: url, broker: broker.url });
    const notes = new Set<unknown>();
    whizbang.handle(NoteTaken, ({ note }) => void notes.add(note));
    await whizbang.start();
    const insert = (note: string, text: string) =>
      pool.query(
        `insert into whizbang.wh_outbox (message_id, destination, message_type, event_data, metadata)
         values ($1, $2, $3, $4, $5)`,
        [randomUUID(), NoteTaken.destination, NoteTaken.type, JSON.stringify({ note }), text],
      );
    for (const [what, text] of metadata) {
      await insert(what, text);
      await insert(`behind ${what}`, '{}');
    }
    /** What was neither handled nor is dead yet. */
    const missing = async () => {
      const { rows } = await pool.query<{ note: string }>(
        `select envelope ->> 'note' as note from whizbang.wh_dead_letters`,
      );
      const dead = new Set(rows.map(({ note }) => note));
      return [
        ...metadata.map(([what]) => what).filter((what) => !notes.has(what) && !dead.has(what)),
        ...metadata.map(([what]) => `behind ${what}`).filter((note) => !notes.has(note)),
      ];
    };
    const nothingMissing = async () => {
      expect(await missing()).toEqual([]);
      return true;
    };
    await waitFor(nothingMissing, { message: 'each row to be carried or dead', timeoutMs: 30_000 });
    expect((await pool.query('select from whizbang.wh_outbox')).rowCount).toBe(0);
  }, 120_000);
});
