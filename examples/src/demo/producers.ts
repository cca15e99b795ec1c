import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

import type { Whizbang } from '@whizbang/core';
import type pg from 'pg';

import { OrderLineAdded } from './messages.js';

export interface ProducersSettings {
  readonly orders: Whizbang;
  readonly pool: pg.Pool;
  readonly run: string;
  readonly signal: AbortSignal;
}

const producers = 6;
const transactions = 240;
const orderCount = 40;
const pauseMs = 60;
const items = ['lamp', 'chair', 'table', 'mirror', 'carpet', 'clock'];

/** Customers who add lines to orders, several at a time, each time in one transaction; every tenth changes its mind. */
export class Producers {
  readonly #settings: ProducersSettings;
  readonly #orderIds = Array.from({ length: orderCount }, () => randomUUID());
  readonly #rolledBack: string[] = [];
  #begun = 0;
  #committed = 0;
  #lines = 0;

  constructor(settings: ProducersSettings) {
    this.#settings = settings;
  }

  /** Order lines, which are messages, in transactions that were committed. */
  get lines(): number {
    return this.#lines;
  }

  get committed(): number {
    return this.#committed;
  }

  get rolledBack(): readonly string[] {
    return this.#rolledBack;
  }

  get half(): boolean {
    return this.#begun >= transactions / 2;
  }

  get streams(): number {
    return orderCount;
  }

  async run(): Promise<void> {
    const { pool, signal } = this.#settings;
    for (const orderId of this.#orderIds) {
      await pool.query('insert into orders.customer_order (order_id) values ($1)', [orderId]);
    }
    await Promise.all(
      Array.from({ length: producers }, async () => {
        while (this.#begun < transactions && !signal.aborted) {
          this.#begun += 1;
          await this.#transact(this.#begun);
          await delay(pauseMs, undefined, { signal });
        }
      }),
    );
  }

  /** What a client does that got no answer: it sends lines again, under the same message ids. Returns how many. */
  async repeat(): Promise<number> {
    const { orders, pool, run } = this.#settings;
    const { rows } = await pool.query<{
      order_id: string;
      line: number;
      item: string;
      transaction_id: string;
      message_id: string;
    }>(
      `select * from orders.order_line l
       where not exists (select from orders.wh_outbox o where o.message_id = l.message_id)
       order by message_id limit 8`,
    );
    for (const row of rows) {
      const { order_id: orderId, line, item, transaction_id: transactionId, message_id: messageId } = row;
      await orders.publishNow(OrderLineAdded, { run, orderId, line, item, transactionId }, { messageId });
    }
    return rows.length;
  }

  async #transact(number: number): Promise<void> {
    const { orders, pool, run } = this.#settings;
    const orderId = this.#orderIds[Math.floor(Math.random() * orderCount)] ?? '';
    const lines = 1 + (number % 3);
    const transactionId = randomUUID();
    const client = await pool.connect();
    try {
      await client.query('begin');
      // The row's lock makes others who add to this order wait, so the order of lines is the order of commits.
      const { rows } = await client.query<{ lines: number }>(
        'update orders.customer_order set lines = lines + $2 where order_id = $1 returning lines',
        [orderId, lines],
      );
      for (let line = (rows[0]?.lines ?? 0) - lines + 1; line <= (rows[0]?.lines ?? 0); line += 1) {
        const item = items[line % items.length] ?? '';
        const { messageId } = await orders.publish(client, OrderLineAdded, { run, orderId, line, item, transactionId });
        await client.query('insert into orders.order_line values ($1, $2, $3, $4, $5)', [
          orderId,
          line,
          item,
          transactionId,
          messageId,
        ]);
      }
      if (number % 10 === 0) {
        await client.query('rollback');
        this.#rolledBack.push(transactionId);
        return;
      }
      await client.query('commit');
      this.#committed += 1;
      this.#lines += lines;
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      throw error;
    } finally {
      client.release();
    }
  }
}
