import { expect, test } from 'vitest';

import { type MessageContext } from '@whizbang/core';

import { waitFor } from '../fixtures/wait-for.js';
import { OrderChanged } from './orders.js';
import { migratedDatabase, testService } from './test-service.js';

test('a message that plain SQL stores reaches its handler', async () => {
  const { url, pool } = await migratedDatabase();
  const whizbang = await testService({ database: url });
  const handled: { order: string; number: number; context: MessageContext }[] = [];
  whizbang.handle(OrderChanged, ({ order, number }, context) => void handled.push({ order, number, context }));
  await whizbang.start();

  // One statement without parameters, as one types it into psql.
  await pool.query(`
    begin;
    select whizbang.store_outbox_messages('[
      {"messageType": "orders.order-changed", "destination": "orders", "payload": {"order": "42", "number": 1},
       "streamId": "01936c5e-7a1b-7c3d-8e4f-5a6b7c8d9e0f", "streamKey": "order-42", "headers": {"tenant": "x"},
       "correlationId": "conversation-1", "messageId": "01936c5e-7a1b-7c3d-8e4f-5a6b7c8d9e00"},
      {"messageType": "orders.order-changed", "destination": "orders", "payload": {"order": "42", "number": 2},
       "streamId": "01936c5e-7a1b-7c3d-8e4f-5a6b7c8d9e0f", "streamKey": "order-42"}
    ]');
    commit;`);
  await pool.query(`
    select whizbang.store_outbox_messages('{"messageType": "orders.order-changed", "destination": "orders",
      "payload": {"order": "43", "number": 1}}');`);

  await waitFor(() => handled.length === 3, { message: 'three messages' });
  expect(handled.filter(({ order }) => order === '42').map(({ number }) => number)).toEqual([1, 2]);
  expect(handled.find(({ order, number }) => order === '42' && number === 1)?.context).toMatchObject({
    messageId: '01936c5e-7a1b-7c3d-8e4f-5a6b7c8d9e00',
    correlationId: 'conversation-1',
    streamKey: 'order-42',
    headers: { tenant: 'x' },
  });
});

test.each([
  ['{"destination": "orders", "payload": 1}', 'message 1: messageType is missing'],
  [
    '[{"messageType": "a", "destination": "b", "payload": 1}, {"messageType": "a", "payload": 1}]',
    'message 2: destination is missing',
  ],
  ['{"messageType": "a", "destination": "b"}', 'message 1: payload is missing'],
  ['[1]', 'message 1: is not an object'],
])('%s is refused', async (json, says) => {
  const { pool } = await migratedDatabase();
  await expect(pool.query('select whizbang.store_outbox_messages($1::json)', [json])).rejects.toThrow(says);
});
