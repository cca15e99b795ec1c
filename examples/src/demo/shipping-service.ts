import { setTimeout as delay } from 'node:timers/promises';

import { type Whizbang, createWhizbang } from '@whizbang/core';
import type pg from 'pg';

import { OrderLineAdded, ParcelSent } from './messages.js';
import type { ServiceSettings } from './orders-service.js';

export interface ShippingSettings extends ServiceSettings {
  /** Which process packs; it is written on the parcel. */
  readonly worker: string;
  /** One process publishes for the service. The in-process broker of another one has nobody who listens. */
  readonly publishes: boolean;
}

/** So short that the rows of a killed process are taken over while you watch; 60 is the default. */
const leaseSeconds = 3;
const packingMs = 12;

/** Packs order lines: one parcel in a table and one message back, in the transaction of the message in hand. */
export async function createShipping({ worker, publishes, ...settings }: ShippingSettings): Promise<Whizbang> {
  const shipping = await createWhizbang({
    ...settings,
    service: 'whizbang-demo.shipping',
    schema: 'shipping',
    messages: [OrderLineAdded, ParcelSent],
    leaseSeconds,
    publisher: { enabled: publishes },
    // Few rows at a time, so that two processes share the work.
    dispatcher: { concurrency: 4, batchSize: 16 },
  });
  return shipping.handle(OrderLineAdded, async (added, { tx, publish, messageId, attempt, signal }) => {
    const { run, orderId, line, transactionId } = added;
    await delay(packingMs, undefined, { signal });
    await tx.query(
      `insert into shipping.parcel (message_id, run, order_id, line, transaction_id, worker, attempt)
       values ($1, $2, $3, $4, $5, $6, $7)`,
      [messageId, run, orderId, line, transactionId, worker, attempt],
    );
    await publish(ParcelSent, { run, orderId, line });
  });
}

export async function createShippingTables(pool: pg.Pool): Promise<void> {
  await pool.query(`
    create table shipping.parcel
      (handled_no bigint generated always as identity, message_id uuid, run text, order_id uuid, line integer,
       transaction_id uuid, worker text, attempt integer)`);
}
