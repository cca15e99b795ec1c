import { type Whizbang, defineMessage, isWhizbangError } from '@whizbang/core';
import { createTransport } from '@whizbang/transport-rabbitmq';
import type pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/wait-for.js';
import { testBroker } from '../fixtures/test-services.js';
import { NoteTaken, OrderChanged } from './orders.js';
import { migratedDatabase, testService } from './test-service.js';

interface Arrived {
  readonly note: unknown;
  readonly headers: Readonly<Record<string, string>>;
}

function nested(levels: number): unknown {
  let value: unknown = 'ground';
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { down: value };
  return value;
}

const megabyte = 'é'.repeat(512 * 1024);
const manyHeaders = Object.fromEntries(
  Array.from({ length: 200 }, (_, index) => [`x-mine-${index}`, `value ${index} ✓`]),
);
const cycle: { self?: unknown } = {};
cycle.self = cycle;
// oxlint-disable-next-line no-sparse-arrays
const sparse = [1, , 3];

const carried: [what: string, note: unknown, headers?: Record<string, string>][] = [
  ['a NUL character', 'before\0after'],
  ['a lone surrogate', 'half \uD83D of it'],
  ['a megabyte', megabyte],
  ['200 headers', 'with headers', manyHeaders],
  ['an empty object', {}],
  ['an empty text', ''],
  ['null', null],
  ['an empty list', []],
  ['a list of lists', [[1, 2], ['a'], []]],
  ['a list of texts with commas, braces and quotes', ['{a,b}', '"', String.raw`\\`, 'NULL']],
  ['a text that begins like JSON', '{'],
  ['a text like a list of PostgreSQL', '{1,2}'],
  ['a number', 42],
  ['a flag', false],
  ['a text that looks like the escape of NUL', String.raw`\u0000`],
  ['one that looks like its escape written twice', String.raw`\\u0000 \\\u0000`],
  ['a key that looks like it', { [String.raw`\u0000`]: 1 }],
  ['the source of a regular expression', String.raw`/[\u0000-\u001f\ud800]+/gu`],
  ['400 levels', nested(400)],
  ['numbers at the edge', [Number.MAX_SAFE_INTEGER, Number.MIN_VALUE, Number.MAX_VALUE, 1e21, 0.1 + 0.2]],
  ['keys of every kind', { '': 1, 'a.b': 2, $ref: 3, '\u2028': 4, '🙂': 5, ' ': 6 }],
  ['a key named __proto__', JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1}')],
];

const refused: [what: string, note: unknown, says: RegExp, headers?: Record<string, string>][] = [
  ['10,000 levels', nested(10_000), /nested more than \d+ levels/],
  ['a BigInt', { amount: 1n }, /\$\.note\.amount is a BigInt/],
  ['NaN', [Number.NaN], /\$\.note\[0\] is NaN/],
  ['infinity', [-Infinity], /is -Infinity/],
  ['a cycle', cycle, /\$\.note\.self refers back/],
  ['a Date', new Date(), /is a Date.*toISOString/],
  ['undefined in an array', [undefined], /\$\.note\[0\] is undefined/],
  ['a hole in an array', sparse, /\$\.note\[1\] is undefined/],
  ['a Map', new Map(), /is a Map/],
  ['a function', () => 1, /is a function/],
  ['3 MB of headers', 'small', /headers have \d+ bytes/, { 'x-large': 'x'.repeat(3_000_000) }],
  ['a NUL in a header', 'small', /header x-nul has a NUL/, { 'x-nul': 'a\0b' }],
  ['a header of ours', 'small', /must .* not begin like a CloudEvents/, { 'ce-id': 'mine' }],
];

const Anything = defineMessage('notes.anything', { schema: z.unknown(), destination: 'anything' });

test.each([[[]], [[1, 2]], ['text'], [''], ['{'], [42], [true], [null]])(
  '%j as the whole payload arrives unchanged, as does its JSON',
  async (payload) => {
    const { url } = await migratedDatabase();
    const whizbang = await testService({ database: url });
    const arrived: { payload: unknown; json: string }[] = [];
    whizbang.handle(Anything, (received, { json }) => void arrived.push({ payload: received, json }));
    await whizbang.start();
    await whizbang.publishNow(Anything, payload);
    await waitFor(() => arrived.length === 1, { message: 'the payload' });
    expect(arrived).toEqual([{ payload, json: JSON.stringify(payload) }]);
  },
);

test('a handler gets at digits and signs that JSON.parse changes', async () => {
  const { url, pool } = await migratedDatabase();
  const whizbang = await testService({ database: url });
  const texts: string[] = [];
  whizbang.handle(Anything, (_, { json }) => void texts.push(json));
  await whizbang.start();
  const json = `{"id": 9223372036854775807, "huge":1e400, "price": 1.10, "zero": -0, "long": 0.${'123456789'.repeat(12)}, "a":1,"a":2 }`;
  await pool.query(
    `select whizbang.store_outbox_messages(array[gen_random_uuid()], array['anything'], array['notes.anything'], array[$1], array['{}'], array[null::uuid], array[null::timestamptz])`,
    [json],
  );
  await waitFor(() => texts.length === 1, { message: 'the message' });
  expect(texts).toEqual([json]);
});

describe.each(['memory:', 'RabbitMQ'])('through %s', (way) => {
  let pool: pg.Pool;
  let whizbang: Whizbang;
  const arrived = new Map<string, Arrived>();
  const orders: { key: string | null; order: string }[] = [];

  beforeAll(async () => {
    const database = await migratedDatabase();
    const broker = way === 'memory:' ? undefined : (await testBroker()).url;
    pool = database.pool;
    await pool.query('create table caller (position integer)');
    whizbang = await testService({
      database: pool,
      ...(broker === undefined ? {} : { broker: createTransport(broker) }),
    });
    whizbang.handle(NoteTaken, ({ note }, { messageId, headers }) => void arrived.set(messageId, { note, headers }));
    whizbang.handle(OrderChanged, ({ order }, { streamKey }) => void orders.push({ key: streamKey, order }));
    await whizbang.start();
  });

  test.each(carried)('%s arrives unchanged', async (_what, note, headers) => {
    const options = headers === undefined ? {} : { headers };
    const { messageId } = await whizbang.publishNow(NoteTaken, { note }, options);
    const message = await waitFor(() => arrived.get(messageId), { message: 'the note', timeoutMs: 20_000 });
    expect(message.note).toEqual(note);
    expect(JSON.stringify(message.note)).toBe(JSON.stringify(note));
    expect(message.headers).toEqual(headers ?? {});
  });

  test.each(['🙂', 'with spaces and / ? #', 'ä'.repeat(128)])('the key %s keeps its stream', async (order) => {
    await whizbang.publishNow(OrderChanged, { order, number: 1 });
    const seen = await waitFor(() => orders.find((one) => one.order === order), { message: 'the order' });
    expect(seen.key).toBe(order);
  });

  test.each(refused)('%s is refused, and the transaction goes on', async (_what, note, says, headers) => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      await client.query('insert into caller values (1)');
      const error: unknown = await whizbang
        .publish(client, NoteTaken, { note }, headers === undefined ? {} : { headers })
        .catch((cause: unknown) => cause);
      expect(isWhizbangError(error) && error.code).toBe('WHIZBANG_MESSAGE_REFUSED');
      expect((error as Error).message).toMatch(says);
      expect((error as Error).message.length).toBeLessThan(1000);
      await client.query('insert into caller values (2)');
      await client.query('commit');
      const { rows } = await client.query('delete from caller returning position');
      expect(rows).toEqual([{ position: 1 }, { position: 2 }]);
    } finally {
      client.release();
    }
  });
});
