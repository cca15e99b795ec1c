import type pg from 'pg';
import { v5, v7 } from 'uuid';

import { OrderPlaced, ordersPlaced } from './order-placed.js';

/** Stores messages of 1,000 streams as the receiver does, in batches of 200. */
export async function fillInbox(pool: pg.Pool, messages: number): Promise<void> {
  const batch = 200;
  for (let index = 0; index < messages; index += batch) {
    const orders = ordersPlaced(Math.min(batch, messages - index), 1000, index);
    await pool.query(
      `select whizbang.store_inbox_messages($1::uuid[], array_fill($2::text, array[$3::integer]),
              array_fill($2::text, array[$3::integer]), array_fill('orders'::text, array[$3::integer]), $4::text[],
              array_fill('{}'::text, array[$3::integer]), $5::uuid[])`,
      [
        orders.map(() => v7()),
        OrderPlaced.type,
        orders.length,
        orders.map((order) => JSON.stringify(order)),
        orders.map(({ order }) => v5(order, v5.URL)),
      ],
    );
  }
}
