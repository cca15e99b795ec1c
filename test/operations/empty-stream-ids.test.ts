import { randomUUID } from 'node:crypto';

import { defineMessage } from '@whizbang/core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { type OperatorsDatabase, insertRows, operatorsDatabase, service } from './service.js';

const empty = '00000000-0000-0000-0000-000000000000';
const placed = defineMessage('order-placed', {
  schema: z.object({ order: z.string() }),
  destination: 'orders',
  stream: ({ order }) => order,
});

let database: OperatorsDatabase;
beforeAll(async () => {
  database = await operatorsDatabase();
});
afterAll(() => database.close());

describe('an empty stream id', () => {
  test('is refused by publish, before anything reaches the database', async () => {
    const whizbang = await service(database.url);
    await expect(whizbang.publishNow(placed, { order: empty })).rejects.toThrow('EmptyStreamId');
    await expect(whizbang.publishNow(placed, { order: '' })).rejects.toThrow('stream key');
  });

  test('is refused by the functions that store', async () => {
    await expect(
      database.query(
        `select whizbang.store_outbox_messages(json_build_array(json_build_object(
           'messageType', 'order-placed', 'destination', 'orders', 'payload', '{}'::json, 'streamId', $1::text)))`,
        [empty],
      ),
    ).rejects.toThrow('EmptyStreamId');
    await expect(
      database.query(
        `select * from whizbang.store_inbox_messages(array[$1::uuid], array['h'], array['order-placed'], array['orders'],
           array['{}'], array['{}'], array[$2::uuid])`,
        [randomUUID(), empty],
      ),
    ).rejects.toThrow('stream_id_check');
  });

  test.each(['wh_outbox', 'wh_inbox'] as const)('cannot be in %s, whoever writes it', async (table) => {
    await expect(insertRows(database, table, [{ stream_id: empty }])).rejects.toThrow('stream_id_check');
  });

  test('is in neither table', async () => {
    const rows = await database.query('select 1 from whizbang.wh_outbox union all select 1 from whizbang.wh_inbox');
    expect(rows).toEqual([]);
  });
});
