import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

import { startPostgres, waitFor } from '@whizbang/test/fixtures';
import pg from 'pg';

import { type Check, checkEverything } from './checks.js';
import { type DemoLogger, demoLogger } from './demo-logger.js';
import { createOrders, createOrdersTables } from './orders-service.js';
import { Producers } from './producers.js';
import { Progress } from './progress.js';
import { SecondWorker } from './second-worker.js';
import { createShipping, createShippingTables } from './shipping-service.js';

const brokerDeadlineMs = 15_000;
const drainDeadlineMs = 60_000;

/** Runs the demo from beginning to end; whatever it opened is closed when it returns or throws. Returns what it checked. */
export async function runDemo(print: (line: string) => void, signal: AbortSignal): Promise<readonly Check[]> {
  const broker = process.env['BROKER_URL'] || 'memory:';
  const run = randomBytes(4).toString('hex');

  await using server = await startPostgres();
  signal.throwIfAborted();
  await using database = await server.createDatabase();
  const pool = new pg.Pool({ connectionString: database.url, max: 8, application_name: 'whizbang-demo' });
  pool.on('error', () => undefined);
  await using _pool = { [Symbol.asyncDispose]: () => pool.end() };
  const { rows } = await pool.query<{ server_version: string }>('show server_version');
  print(`PostgreSQL ${rows[0]?.server_version} (${server.source}), database ${database.name}`);
  print(`Broker: ${nameOf(broker)}\n`);
  signal.throwIfAborted();

  const logger = demoLogger('whizbang', print);
  const settings = { database: database.url, broker, logger };
  await using orders = await createOrders(settings);
  await using shipping = await createShipping({ ...settings, worker: 'first', publishes: true });
  const applied = [await orders.migrate(), await shipping.migrate()];
  await createOrdersTables(pool);
  await createShippingTables(pool);
  print(
    `Migrated the schemas orders and shipping (${applied.map((one) => one.applied.length).join(' and ')} SQL files).`,
  );

  // Shipping first: a message that no queue is bound for is a failed try.
  await shipping.start();
  await orders.start();
  await brokerAnswers(() => orders.brokerReady && shipping.brokerReady, broker, logger, signal);
  await using second = await SecondWorker.start(database.url, broker);
  const producers = new Producers({ orders, pool, run, signal });
  const progress = new Progress({ pool, run, orders, shipping, second, producers, print });
  print(
    `Started orders and shipping here (process ${process.pid}), and shipping once more as process ${second.pid}.\n`,
  );

  const stopPrinting = new AbortController();
  const printing = printEverySecond(progress, AbortSignal.any([signal, stopPrinting.signal]));
  const begun = performance.now();
  try {
    const producing = producers.run();
    producing.catch(() => undefined);
    await Promise.race([
      producing,
      waitFor(() => producers.half, { message: 'half of the transactions', timeoutMs: 60_000, signal }),
    ]);
    const killed = await second.kill(pool, signal);
    // Not before: what the killed process recognised died with its counters.
    const repeated = await producers.repeat();
    print(
      `  Killed process ${killed.pid} with ${killed.held.length} messages in its hands; their leases run out in 3 s.`,
    );
    await producing;
    print(
      `  All ${producers.committed} transactions are committed and ${producers.rolledBack.length} rolled back; waiting for the last messages.`,
    );
    const drained = await drain(pool, progress, producers, signal);
    const seconds = (performance.now() - begun) / 1000;
    stopPrinting.abort();
    await printing;
    await progress.print();
    if (!drained) print(`  Not everything has arrived after ${drainDeadlineMs / 1000} s.`);

    const { lines, parcels } = await progress.look();
    print(
      `\n${lines.handled + parcels.handled} messages in ${producers.streams} streams handled in ${seconds.toFixed(1)} s, ` +
        `at the pace of the producers${await handledForOthers(pool, run)}. The tables say:`,
    );
    return await checkEverything({
      database: database.url,
      run,
      lines: producers.lines,
      rolledBack: producers.rolledBack,
      killed,
      repeated,
      deduplicated: lines.deduplicated,
    });
  } finally {
    stopPrinting.abort();
    await printing;
  }
}

/** A real broker may still have had messages of a demo that was interrupted. */
async function handledForOthers(pool: pg.Pool, run: string): Promise<string> {
  const { rows } = await pool.query<{ parcels: number }>(
    'select count(*)::integer as parcels from shipping.parcel where run <> $1',
    [run],
  );
  const { parcels = 0 } = rows[0] ?? {};
  return parcels === 0 ? '' : `, and ${parcels} more that an earlier run had left at the broker`;
}

/** A connection string without its secrets. */
function nameOf(broker: string): string {
  if (broker === 'memory:') return 'in-process (memory:)';
  const url = URL.canParse(broker) ? new URL(broker) : undefined;
  return url === undefined || url.host === '' ? 'what BROKER_URL names' : `${url.protocol}//${url.host}`;
}

async function brokerAnswers(
  ready: () => boolean,
  broker: string,
  logger: DemoLogger,
  signal: AbortSignal,
): Promise<void> {
  await waitFor(ready, { message: 'the broker', timeoutMs: brokerDeadlineMs, signal }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new Error(
      `The broker of BROKER_URL (${nameOf(broker)}) could not be used for ${brokerDeadlineMs / 1000} s` +
        `${logger.lastWarning === undefined ? '' : ` (${logger.lastWarning})`}. ` +
        'Correct BROKER_URL, or leave it out to run without a broker.',
      { cause: error },
    );
  });
}

async function printEverySecond(progress: Progress, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await delay(1_000, undefined, { signal }).catch(() => undefined);
    // A look that fails is no reason to end: the demo itself will say what is wrong.
    if (!signal.aborted) await progress.print().catch(() => undefined);
  }
}

/** Waits until every committed line was confirmed and nothing is left on its way. Returns whether that came to be. */
async function drain(pool: pg.Pool, progress: Progress, producers: Producers, signal: AbortSignal): Promise<boolean> {
  const isDrained = async () => {
    const { lines, parcels } = await progress.look();
    if (parcels.handled < producers.lines || lines.handled < producers.lines) return false;
    const { rows } = await pool.query(
      `select 1 from orders.wh_outbox union all select 1 from orders.wh_inbox
       union all select 1 from shipping.wh_outbox union all select 1 from shipping.wh_inbox limit 1`,
    );
    return rows.length === 0;
  };
  try {
    return await waitFor(isDrained, {
      message: 'the last messages',
      timeoutMs: drainDeadlineMs,
      intervalMs: 50,
      signal,
    });
  } catch {
    signal.throwIfAborted();
    return false;
  }
}
