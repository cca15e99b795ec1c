import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { rabbitmq } from './brokers/rabbitmq.js';
import { Ledger, countRows } from './ledger.js';
import { OrderChanged } from './orders.js';
import { startService } from './service-program.js';
import { atEnd, inTransaction, migratedDatabase, testService } from './test-service.js';

const leaseSeconds = 2;

/** Until its leases have run out, whatever it renewed last. */
async function untilLeasesRunOut(pool: Awaited<ReturnType<typeof migratedDatabase>>['pool']): Promise<void> {
  const leased = `select 1 from whizbang.wh_outbox where lease_expiry > clock_timestamp()
                  union all select 1 from whizbang.wh_inbox where lease_expiry > clock_timestamp()`;
  await waitFor(async () => (await pool.query(leased)).rowCount === 0, { message: 'the end of all leases' });
}

test(
  'a publisher that stood still does not publish what others have published meanwhile',
  { timeout: 120_000 },
  async () => {
    const messages = 500;
    const [{ url, pool }, broker] = await Promise.all([migratedDatabase(), rabbitmq.shared()]);
    const witness = await broker.witness(OrderChanged.destination);
    atEnd(async () => witness[Symbol.asyncDispose]());
    const options = { service: 'orders', database: url, broker: broker.url, leaseSeconds };
    const other = await testService(options);
    await inTransaction(pool, (tx) =>
      // One stream, one message of it at the broker at a time: most of them are in hand for long.
      other.publishMany(
        tx,
        OrderChanged,
        Array.from({ length: messages }, (_, index) => ({ order: 'a', number: index + 1 })),
      ),
    );
    const stopped = await startService({ options });
    await waitFor(() => witness.seen.length > 20, { message: 'the first to publish', intervalMs: 1 });
    stopped.kill('SIGSTOP');
    await untilLeasesRunOut(pool);
    expect((await countRows(pool)).outbox, 'too late: nothing is left').toBeGreaterThan(0);

    await other.start();
    await waitFor(async () => (await countRows(pool)).outbox === 0, { message: 'the rest', timeoutMs: 60_000 });
    const numbers = () => witness.seen.map(({ body }) => (JSON.parse(body) as { number: number }).number);
    await waitFor(() => numbers().includes(messages), { message: 'the witness to see the last' });
    const before = witness.seen.length;
    stopped.kill('SIGCONT');
    // It has settled what it had in hand, and what it would have sent by then is sent.
    await stopped.waitForMessage(({ log }) => /lease had run out/.test(String(log)), {
      message: 'its leases are gone',
    });
    await other.publishNow(OrderChanged, { order: 'a', number: messages + 1 });
    await waitFor(() => numbers().includes(messages + 1), { message: 'one message more' });

    expect([...new Set(numbers())]).toEqual(Array.from({ length: messages + 1 }, (_, index) => index + 1));
    // Of hundreds in hand: what answers of the broker set off before it looked at the clock.
    expect(
      numbers()
        .slice(before)
        .filter((number) => number <= messages).length,
    ).toBeLessThan(5);
  },
);

test(
  'a handler that stood still commits nothing, and what waited behind it is not begun',
  { timeout: 120_000 },
  async () => {
    const { url, pool } = await migratedDatabase();
    const broker = await rabbitmq.shared();
    const options = { service: 'shipping', database: url, broker: broker.url, leaseSeconds };
    await Ledger.create(pool);
    const handler = { delayMs: 30, announce: true };
    const stopped = await startService({ options, handler });
    const publisher = await testService({ ...options, service: 'orders' });
    await inTransaction(pool, (tx) =>
      publisher.publishMany(
        tx,
        OrderChanged,
        Array.from({ length: 40 }, (_, index) => ({ order: 'a', number: index + 1 })),
      ),
    );
    const begunBy = (program: typeof stopped) => program.messages.filter((message) => 'handling' in message).length;
    // All of them have been received: the broker gives nothing to another instance while this one seems to live.
    const received = `select 1 where (select count(*) from handled) > 2
    and (select count(*) from handled) + (select count(*) from whizbang.wh_inbox) = 40`;
    await waitFor(async () => (await pool.query(received)).rowCount === 1, { message: 'all of them', intervalMs: 1 });
    stopped.kill('SIGSTOP');
    await untilLeasesRunOut(pool);
    // The transaction that stands still holds nothing that the others wait for.
    const other = await startService({ options, handler });
    await waitFor(async () => (await countRows(pool)).inbox === 0, { message: 'the rest', timeoutMs: 60_000 });
    other.kill('SIGTERM');
    await other.waitForMessage((message) => 'stopped' in message, { message: 'the other to stop' });
    const begun = begunBy(stopped);
    stopped.kill('SIGCONT');
    // How it learns of its end depends on where it stood (in its handler, at the completion, in a session that the server has
    // ended); one message more, which nobody else is there for, is handled when it is over that.
    await publisher.publishNow(OrderChanged, { order: 'a', number: 41 });
    await waitFor(async () => (await pool.query('select 1 from handled where number = 41')).rowCount === 1, {
      message: 'one message more',
      timeoutMs: 60_000,
    });

    await waitFor(() => begunBy(stopped) > begun, { message: 'word of it' });
    const { rows } = await pool.query<{ number: number }>('select number from handled order by number, position');
    expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: 41 }, (_, index) => index + 1));
    expect(begunBy(stopped)).toBe(begun + 1);
    expect(begunBy(other)).toBeGreaterThan(30);
  },
);
