import { describe, expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { brokers } from './brokers/index.js';
import { Ledger, countRows, insertHandled } from './ledger.js';
import { OrderChanged } from './orders.js';
import { inTransaction, migratedDatabase, testService } from './test-service.js';

const orders = Array.from({ length: 40 }, (_, index) => `order-${index}`);
const rounds = 10;

/** Every broker to the next one, and the last to the first. */
const moves = brokers.map((from, index) => ({ from, to: brokers[(index + 1) % brokers.length] ?? from }));

// The steps of docs/switching-brokers.md.
describe.each(moves)('from $from.name to $to.name', (move) => {
  test('a system moves while its business goes on: nothing is lost, each is handled once, streams keep their order', async () => {
    const [from, to] = [await move.from.shared(), await move.to.shared()];
    const [sending, receiving] = [await migratedDatabase(), await migratedDatabase()];
    const ledger = await Ledger.create(receiving.pool);
    const sender = (broker: string) => testService({ service: 'orders', database: sending.url, broker });
    const receiver = async (broker: string) => {
      const whizbang = await testService({ database: receiving.url, broker });
      whizbang.handle(OrderChanged, async ({ order, number }, { tx, messageId, attempt }) => {
        await tx.query(insertHandled, [messageId, order, number, attempt, false]);
      });
      await whizbang.start();
      return whizbang;
    };
    // The business: it only ever commits to its own database.
    const business = await testService({ service: 'orders', database: sending.url, broker: from.url });
    let round = 0;
    const workOn = async (until: number) => {
      for (; round < until; round += 1) {
        for (const order of orders) {
          await inTransaction(sending.pool, (tx) => business.publish(tx, OrderChanged, { order, number: round + 1 }));
        }
      }
    };

    const oldReceiver = await receiver(from.url);
    const oldSender = await sender(from.url);
    await oldSender.start();
    const working = workOn(rounds);
    await waitFor(async () => (await ledger.count()) > orders.length * 3, {
      message: 'work to flow',
      timeoutMs: 60_000,
    });

    // 1. The senders stop; the business goes on, and its messages wait in the outbox.
    await oldSender.stop();
    await working;
    const waiting = (await countRows(sending.pool)).outbox;
    expect(waiting, 'messages that have not gone to the old broker').toBeGreaterThan(0);
    // 2. The receivers empty the old broker, and stop.
    const gone = orders.length * rounds - waiting;
    await waitFor(async () => (await ledger.count()) === gone, {
      message: 'the old broker to be empty',
      timeoutMs: 60_000,
    });
    await oldReceiver.stop();
    // 3. The receivers start on the new broker, so that it knows them; 4. then the senders.
    await receiver(to.url);
    await (await sender(to.url)).start();

    const arrived = async () => (await ledger.count()) >= orders.length * rounds;
    await waitFor(arrived, { message: 'everything to be handled', timeoutMs: 60_000 });
    expect(await ledger.report()).toEqual({ handled: orders.length * rounds, twice: 0, outOfOrder: 0, rolledBack: 0 });
    expect(await countRows(sending.pool)).toMatchObject({ outbox: 0, deadLetters: 0 });
  }, 240_000);
});
