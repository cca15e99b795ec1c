import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { WorkTable, inTransaction, migratedDatabase, streamOf, workTables } from './work-table.js';

const me = '0190aaaa-0000-7000-8000-000000000001';

let database: Awaited<ReturnType<typeof migratedDatabase>>;
beforeAll(async () => {
  database = await migratedDatabase();
});
afterAll(() => database.close());
beforeEach(async () => {
  for (const table of ['wh_outbox', 'wh_inbox', 'wh_message_deduplication', 'wh_dead_letters']) {
    await database.pool.query(`delete from whizbang.${table}`);
  }
});

/** Texts that JSON allows and careless storage changes. */
const faithful: readonly (readonly [string, string])[] = [
  ['a NUL character', String.raw`{"text":"a\u0000b"}`],
  ['a lone surrogate', String.raw`{"text":"\ud83d"}`],
  ['an emoji as key', '{"🚀":"🧨"}'],
  ['an empty object', '{}'],
  ['null', 'null'],
  ['a key twice, spaces and an order of its own', '{"b": 1,  "a":2 , "b":3}'],
  ['numbers beyond a double', '{"n":12345678901234567890.1234567890,"e":1e400,"zero":-0}'],
  ['a nest of 500', `${'['.repeat(500)}${']'.repeat(500)}`],
  ['a megabyte', JSON.stringify({ text: 'ü1'.repeat(350_000) })],
];

describe.each(workTables)('the %s', (name) => {
  let table: WorkTable;
  beforeEach(() => {
    table = new WorkTable(name, database.pool);
  });

  test.each(faithful)('gives %s back byte for byte', async (_, body) => {
    await table.store(['a1'], { body });
    const [row] = await table.claim(me);
    expect(row?.eventData === body).toBe(true);
    const { rows } = await database.pool.query<{ bytes: number }>(`select body_bytes as bytes from ${table.table}`);
    expect(rows[0]?.bytes).toBe(Buffer.byteLength(body));
  });

  test('orders rows as they were stored, in one call and over calls', async () => {
    const many = Array.from({ length: 500 }, (_, index) => `a${index}`);
    await table.store(many);
    await table.store(['b2', 'b1', 'a500']);
    expect((await table.claim(me, { limit: 1_000 })).map((row) => row.label)).toEqual([...many, 'b2', 'b1', 'a500']);
  });

  test('refuses the all-zero UUID as stream and says why', async () => {
    const zero = '00000000-0000-0000-0000-000000000000';
    const storing =
      name === 'outbox'
        ? storeJson({ messageType: 'a1', destination: 'orders', payload: {}, streamId: zero })
        : database.pool.query(
            `select whizbang.store_inbox_messages(array[gen_random_uuid()], '{a1}', '{a1}', '{orders}', '{"1"}', '{"{}"}', array[$1::uuid])`,
            [zero],
          );
    await expect(storing).rejects.toThrow(name === 'outbox' ? 'EmptyStreamId' : 'stream_id_check');
  });
});

describe('the inbox', () => {
  const store = async (ids: readonly string[], labels: readonly string[]): Promise<string[]> => {
    const all = (value: string) => ids.map(() => value);
    const { rows } = await database.pool.query<{ id: string }>(
      'select whizbang.store_inbox_messages($1::uuid[], $2, $2, $3, $4, $4, $5::uuid[]) as id',
      [ids, labels, all('orders'), all('{}'), all(streamOf('a'))],
    );
    return rows.map((row) => row.id);
  };
  const table = () => new WorkTable('inbox', database.pool);

  test('takes a message once: again in the batch, again later, again after it was handled', async () => {
    const [first, second, third] = [randomUUID(), randomUUID(), randomUUID()] as const;
    expect(await store([first, first, second], ['a1', 'a1 again', 'a2'])).toHaveLength(2);
    expect(await store([second, third], ['a2 again', 'a3'])).toEqual([third]);
    const rows = await table().claim(me);
    expect(rows.map((row) => row.label)).toEqual(['a1', 'a2', 'a3']);
    await table().complete(me, rows);
    expect(await store([first, second, third], ['a1', 'a2', 'a3'])).toEqual([]);
    expect(await table().states()).toEqual([]);
  });

  test('takes overlapping batches of two receivers at once, in whatever order they list them, without a deadlock', async () => {
    const ids = Array.from({ length: 300 }, () => randomUUID());
    const labels = ids.map((_, index) => `a${index}`);
    const fresh = await Promise.all([
      store(ids, labels),
      store(ids.toReversed(), labels.toReversed()),
      store(ids.toSorted(), labels),
      store(ids.toSorted().toReversed(), labels),
    ]);
    expect(fresh.flat().toSorted()).toEqual(ids.toSorted());
    expect(await table().states()).toHaveLength(300);
  });

  test('forgets a message whose transaction is rolled back', async () => {
    const id = randomUUID();
    const storing = inTransaction(database.pool, async (client) => {
      await client.query(
        `select whizbang.store_inbox_messages(array[$1::uuid], '{a1}', '{a1}', '{orders}', '{"1"}', '{"{}"}', array[null::uuid])`,
        [id],
      );
      throw new Error('rolled back');
    });
    await expect(storing).rejects.toThrow('rolled back');
    expect(await store([id], ['a1'])).toEqual([id]);
  });

  test('keeps what cannot be read once, bytes and all', async () => {
    const keep = () =>
      database.pool.query<{ stored: number }>(
        `select whizbang.store_undecodable_deliveries(array[$1::uuid], '{unknown}', '{orders}', array[$2::bytea], '{"{}"}', '{"no JSON"}', 3, '1.0', $3) as stored`,
        ['0190aaaa-0000-7000-8000-00000000000f', Buffer.from([0, 255, 1]), me],
      );
    expect((await keep()).rows).toEqual([{ stored: 1 }]);
    expect((await keep()).rows).toEqual([{ stored: 0 }]);
    const { rows } = await database.pool.query(
      'select raw_body, failure_reason, error_text from whizbang.wh_dead_letters',
    );
    expect(rows).toEqual([{ raw_body: Buffer.from([0, 255, 1]), failure_reason: 3, error_text: 'no JSON' }]);
  });
});

describe('plain SQL', () => {
  const table = () => new WorkTable('outbox', database.pool);
  const message = { messageType: 'a1', destination: 'orders', payload: { n: 1 } };

  test('stores one object with the least there is', async () => {
    expect(await storeJson(message)).toBe(1);
    const { rows } = await database.pool.query(
      `select substr(message_id::text, 15, 1) as version, destination, event_data::text as body, metadata::text as metadata, stream_id, scheduled_for
       from whizbang.wh_outbox`,
    );
    expect(rows).toEqual([
      {
        version: '7',
        destination: 'orders',
        body: '{"n":1}',
        metadata: '{}',
        stream_id: null,
        scheduled_for: null,
      },
    ]);
  });

  test('stores an array in its order, and everything that may be said', async () => {
    const full = {
      ...message,
      messageType: 'a2',
      messageId: '0190AAAA-0000-7000-8000-000000000099',
      streamId: streamOf('a'),
      streamKey: 'order a',
      scheduledFor: '2999-01-01T00:00:00Z',
      headers: { tenant: 'x' },
      correlationId: 'c',
      causationId: 'd',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    };
    expect(await storeJson([message, full, { ...message, messageType: 'a3', payload: null }])).toBe(3);
    expect((await table().states()).map((row) => row.label)).toEqual(['a1', 'a2', 'a3']);
    const { rows } = await database.pool.query(
      `select message_id, stream_id, metadata, scheduled_for = '2999-01-01T00:00:00Z' as later from whizbang.wh_outbox where message_type = 'a2'`,
    );
    expect(rows).toEqual([
      {
        message_id: full.messageId.toLowerCase(),
        stream_id: full.streamId,
        later: true,
        metadata: {
          streamKey: full.streamKey,
          headers: full.headers,
          correlationId: 'c',
          causationId: 'd',
          traceparent: full.traceparent,
        },
      },
    ]);
  });

  test('stores nothing for an empty array, and a message id only once', async () => {
    expect(await storeJson([])).toBe(0);
    const twice = { ...message, messageId: randomUUID() };
    expect(await storeJson([twice, twice])).toBe(1);
    expect(await storeJson(twice)).toBe(0);
  });

  test('keeps a payload as it is written', async () => {
    const payload = '{"b": 1,  "a": "\\t🚀" }';
    await database.pool.query('select whizbang.store_outbox_messages($1::json)', [
      `{"messageType":"a1","destination":"orders","payload":${payload}}`,
    ]);
    expect((await table().claim(me))[0]?.eventData).toBe(payload);
  });

  test('is what a script would write', async () => {
    await database.pool.query(`
      begin;
      select whizbang.store_outbox_messages('[{"messageType": "a1", "destination": "orders", "payload": {"orderId": "42"}}]');
      commit;`);
    expect(await table().claimLabels(me)).toEqual(['a1']);
  });

  test.each([
    ['message 1: is not an object', 1],
    ['message 1: is not an object', null],
    ['message 2: is not an object', [message, 'text']],
    ['message 1: messageType is missing', { destination: 'orders', payload: 1 }],
    ['message 2: destination is missing', [message, { messageType: 'a', payload: 1, destination: '' }]],
    ['message 1: payload is missing', { messageType: 'a', destination: 'orders' }],
    ['message 1: streamKey is given without streamId', { ...message, streamKey: 'order 1' }],
    ['message 1: headers must be an object of strings', { ...message, headers: { tenant: 1 } }],
    ['message 1: headers must be an object of strings', { ...message, headers: ['tenant'] }],
    ['invalid input syntax for type uuid', { ...message, streamId: 'order 1' }],
    ['invalid input syntax for type uuid', { ...message, messageId: '1' }],
    ['invalid input syntax for type timestamp', { ...message, scheduledFor: 'soon' }],
  ])('is refused with: %s', async (sentence, messages) => {
    await expect(storeJson(messages)).rejects.toThrow(sentence);
    expect(await table().states()).toEqual([]);
  });

  test('is refused when a text holds what PostgreSQL cannot take apart', async () => {
    const storing = database.pool.query('select whizbang.store_outbox_messages($1::json)', [
      String.raw`{"messageType":"a1","destination":"orders","payload":{"text":"a\u0000b"}}`,
    ]);
    await expect(storing).rejects.toThrow('unsupported Unicode escape sequence');
  });
});

async function storeJson(messages: unknown): Promise<number | undefined> {
  const { rows } = await database.pool.query<{ stored: number }>(
    'select whizbang.store_outbox_messages($1::json) as stored',
    [JSON.stringify(messages)],
  );
  return rows[0]?.stored;
}
