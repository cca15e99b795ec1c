import { migrate } from '@whizbang/core';
import type pg from 'pg';

import { type Program, waitFor } from '../fixtures/index.js';
import { testDatabase, testProgram } from '../fixtures/test-services.js';
import type { BrokerKind, BrokerWitness } from './brokers/scenario-broker.js';
import { Ledger, type LedgerReport, countRows } from './ledger.js';
import { compiledProgram, startService } from './service-program.js';
import { atEnd, testPool } from './test-service.js';

const streamCount = 1000;
const producerCount = 4;

interface Traffic {
  readonly messages: number;
  readonly leaseSeconds?: number;
}

/** What the witness at the broker has seen of the streams. */
interface BrokerReport {
  readonly messages: number;
  /** Deliveries beyond the first of a message. */
  readonly duplicates: number;
  /** First deliveries that did not follow their predecessor in the stream. */
  readonly outOfOrder: number;
  readonly rolledBack: number;
}

/**
 * Orders and shipping, each with a database of its own: four producers, two publishers, three consumers, each a process,
 * and a witness at the broker.
 */
export class StreamTraffic {
  readonly orders: pg.Pool;
  readonly shipping: pg.Pool;
  readonly ledger: Ledger;
  readonly publishers: readonly Program[];
  readonly consumers: readonly Program[];
  readonly #witness: BrokerWitness;
  readonly #producers: readonly Program[];
  readonly #messages: number;

  private constructor(
    parts: Pick<StreamTraffic, 'orders' | 'shipping' | 'ledger' | 'publishers' | 'consumers'> & {
      witness: BrokerWitness;
      producers: readonly Program[];
      messages: number;
    },
  ) {
    ({ orders: this.orders, shipping: this.shipping, ledger: this.ledger } = parts);
    ({ publishers: this.publishers, consumers: this.consumers } = parts);
    this.#witness = parts.witness;
    this.#producers = parts.producers;
    this.#messages = parts.messages;
  }

  /** Returns when the producers are running. All of it ends with the test. */
  static async start(kind: BrokerKind, { messages, leaseSeconds = 60 }: Traffic): Promise<StreamTraffic> {
    const [ordersDatabase, shippingDatabase, broker] = await Promise.all([
      testDatabase(),
      testDatabase(),
      kind.shared(),
    ]);
    const [orders, shipping] = [testPool(ordersDatabase.url), testPool(shippingDatabase.url)];
    await Promise.all([migrate({ database: orders }), migrate({ database: shipping })]);
    const ledger = await Ledger.create(shipping);
    await orders.query(
      'create table streams (name text primary key, last integer not null default 0) with (fillfactor = 50)',
    );
    await orders.query(`insert into streams (name) select 'order-' || i from generate_series(1, ${streamCount}) i`);
    const witness = await broker.witness('orders');
    atEnd(async () => witness[Symbol.asyncDispose]());

    const consumer = () =>
      startService({
        options: {
          service: 'shipping',
          database: shippingDatabase.url,
          broker: broker.url,
          leaseSeconds,
          publisher: { enabled: false },
        },
        handler: {},
      });
    const publisher = () =>
      startService({ options: { service: 'orders', database: ordersDatabase.url, broker: broker.url, leaseSeconds } });
    const consumers = await Promise.all([consumer(), consumer(), consumer()]);
    const publishers = await Promise.all([publisher(), publisher()]);
    const producers = Array.from({ length: producerCount }, () =>
      testProgram(compiledProgram('producer'), {
        DATABASE_URL: ordersDatabase.url,
        BROKER_URL: broker.url,
        MESSAGES: String(messages / producerCount),
        CONNECTIONS: '4',
      }),
    );
    return new StreamTraffic({ orders, shipping, ledger, publishers, consumers, witness, producers, messages });
  }

  /** Resolves when the producers have ended: how many messages they committed and how many they rolled back. */
  async produced(): Promise<{ committed: number; rolledBack: number }> {
    const ends = await Promise.all(
      this.#producers.map((producer) =>
        producer.waitForMessage(({ produced }) => produced === true, {
          message: 'the end of production',
          timeoutMs: 60_000 + this.#messages * 12,
        }),
      ),
    );
    const { rows } = await this.orders.query<{ sum: number }>('select sum(last)::integer as sum from streams');
    return {
      committed: rows[0]?.sum ?? 0,
      rolledBack: ends.reduce((sum, end) => sum + Number(end['rolledBack']), 0),
    };
  }

  /** Resolves when everything has been handled and no row waits. */
  async settled(timeoutMs: number): Promise<void> {
    await waitFor(
      async () => {
        const [orders, shipping, handled] = await Promise.all([
          countRows(this.orders),
          countRows(this.shipping),
          this.ledger.count(),
        ]);
        const waiting = orders.outbox + shipping.inbox;
        if (waiting > 0 || handled < this.#messages) {
          throw new Error(`${orders.outbox} in the outbox, ${shipping.inbox} in the inbox, ${handled} handled`);
        }
        return true;
      },
      { message: 'everything to be handled', timeoutMs, intervalMs: 200 },
    );
  }

  async handled(): Promise<LedgerReport> {
    return this.ledger.report();
  }

  /** To be asked when everything is settled: then the witness has nothing to wait for but its own socket. */
  async brokerReport(): Promise<BrokerReport> {
    const known = () => new Set(this.#witness.seen.map(({ messageId }) => messageId)).size;
    await waitFor(() => known() >= this.#messages, { message: 'the witness at the broker to see everything' });
    const { seen } = this.#witness;
    const lastNumbers = new Map<string, number>();
    const ids = new Set<string>();
    let [outOfOrder, rolledBackSeen] = [0, 0];
    for (const { messageId, body } of seen) {
      const { order, number, rolledBack } = JSON.parse(body) as { order: string; number: number; rolledBack: boolean };
      if (rolledBack) rolledBackSeen += 1;
      if (ids.has(messageId)) continue;
      ids.add(messageId);
      if (number !== (lastNumbers.get(order) ?? 0) + 1) outOfOrder += 1;
      lastNumbers.set(order, number);
    }
    return { messages: ids.size, duplicates: seen.length - ids.size, outOfOrder, rolledBack: rolledBackSeen };
  }
}
