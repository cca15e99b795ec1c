import { type Logger, type Whizbang, createWhizbang } from '@whizbang/core';
import type pg from 'pg';

import { OrderLineAdded, ParcelSent } from './messages.js';

export interface ServiceSettings {
  readonly database: string;
  readonly broker: string;
  readonly logger: Logger;
}

/** Publishes order lines and confirms those whose parcel was sent. */
export async function createOrders(settings: ServiceSettings): Promise<Whizbang> {
  const orders = await createWhizbang({
    ...settings,
    service: 'whizbang-demo.orders',
    schema: 'orders',
    messages: [OrderLineAdded, ParcelSent],
  });
  return orders.handle(ParcelSent, async ({ run, orderId, line }, { tx, messageId }) => {
    await tx.query('insert into orders.confirmation (message_id, run, order_id, line) values ($1, $2, $3, $4)', [
      messageId,
      run,
      orderId,
      line,
    ]);
  });
}

/** The tables of the service itself, beside those of Whizbang. None has a key that would hide a double or a swap. */
export async function createOrdersTables(pool: pg.Pool): Promise<void> {
  await pool.query(`
    create table orders.customer_order (order_id uuid primary key, lines integer not null default 0);
    create table orders.order_line
      (order_id uuid, line integer, item text, transaction_id uuid, message_id uuid, primary key (order_id, line));
    create table orders.confirmation
      (handled_no bigint generated always as identity, message_id uuid, run text, order_id uuid, line integer)`);
}
