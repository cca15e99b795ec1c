import { randomUUID } from 'node:crypto';

import { describe, expect, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { brokers } from './brokers/index.js';
import { NoteTaken } from './orders.js';
import { migratedDatabase, testService } from './test-service.js';

const nul = 'a\0b';
/** What another program may send; each with a message id of its own. */
const odd: readonly (readonly [
  what: string,
  parts: {
    readonly attributes?: Record<string, string>;
    readonly headers?: Record<string, string>;
    readonly body?: string;
  },
])[] = [
  ['no bytes at all', { body: '' }],
  ['the text null', { body: 'null' }],
  ['a blank', { body: ' ' }],
  ['half an object', { body: '{"note": ' }],
  ['a NUL byte in the body', { body: '{"note": "a\0b"}' }],
  ['NUL as an escape in the body', { body: String.raw`{"note": "NUL as an escape in the body", "more": "\u0000"}` }],
  ['NUL as an escape in a key', { body: String.raw`{"note": "NUL as an escape in a key", "\u0000": 1}` }],
  ['NUL in the id', { attributes: { id: `${nul}-1` } }],
  ['NUL in the source', { attributes: { source: nul } }],
  ['NUL in the time', { attributes: { time: nul } }],
  ['NUL in the partition key', { attributes: { partitionkey: nul } }],
  ['NUL in the correlation id', { attributes: { correlationid: nul } }],
  ['NUL in the causation id', { attributes: { causationid: nul } }],
  ['NUL in the trace', { attributes: { traceparent: nul, tracestate: nul } }],
  ['NUL in a header', { headers: { 'x-nul': nul } }],
  ['an id of 10,000 characters', { attributes: { id: 'i'.repeat(10_000) } }],
  ['the all-zero partition key', { attributes: { partitionkey: '00000000-0000-0000-0000-000000000000' } }],
];

describe.each(brokers)('deliveries of other programs, through $name', (kind) => {
  test('are handled or dead, each by itself, and what comes behind them is handled', async () => {
    const broker = await kind.shared();
    const { url, pool } = await migratedDatabase();
    const whizbang = await testService({ database: url, broker: broker.url });
    const notes = new Set<unknown>();
    whizbang.handle(NoteTaken, ({ note }) => void notes.add(note));
    await whizbang.start();
    const send = (note: string, parts: (typeof odd)[number][1]) =>
      broker.send(NoteTaken.destination, {
        attributes: {
          specversion: '1.0',
          id: randomUUID(),
          type: NoteTaken.type,
          source: '/elsewhere',
          // The session, where the broker has some: without one it would keep the message for itself.
          partitionkey: randomUUID(),
          ...parts.attributes,
        },
        headers: { 'x-what': note, ...parts.headers },
        body: parts.body ?? JSON.stringify({ note }),
      });
    const sent: string[] = [];
    for (const [what, parts] of odd) {
      // What the broker or its client refuses to send is nobody's delivery.
      await send(what, parts).then(
        () => sent.push(what),
        () => undefined,
      );
      await send(`behind ${what}`, {});
    }
    await waitFor(
      () => {
        expect(odd.map(([what]) => `behind ${what}`).filter((note) => !notes.has(note))).toEqual([]);
        return true;
      },
      { message: 'what came behind', timeoutMs: 30_000 },
    );
    const missing = async () => {
      const { rows } = await pool.query<{ metadata: string }>('select metadata::text from whizbang.wh_dead_letters');
      const dead = rows.map(({ metadata }) => (JSON.parse(metadata) as { headers?: Record<string, string> }).headers);
      return sent.filter((what) => !notes.has(what) && !dead.some((headers) => headers?.['x-what'] === what));
    };
    await waitFor(
      async () => {
        expect(await missing()).toEqual([]);
        return true;
      },
      { message: 'each to be handled or dead', timeoutMs: 30_000 },
    );
    expect(sent.length).toBeGreaterThan(8);
    expect((await pool.query('select from whizbang.wh_inbox')).rowCount).toBe(0);
    // Operators can look at each of them.
    for (const entry of (await whizbang.deadLetters.list({}, { limit: 100 })).entries) {
      expect(await whizbang.deadLetters.show(entry.deadLetterId)).toBeDefined();
      expect((await whizbang.explain(entry.sourceId)).sentence).not.toBe('');
    }
  }, 120_000);
});
