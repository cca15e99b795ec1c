import { fileURLToPath } from 'node:url';

import { type Program, runProgram, waitFor } from '@whizbang/test/fixtures';
import { connect } from 'amqplib';

import { OrderPlaced } from './order-placed.js';
import { medianOf } from './percentiles.js';
import { report } from './report.js';
import { BenchServices } from './services.js';

// What publishers that listen cost 32 producers that commit: the same load beside two publishers that listen, and beside two
// that only poll, in turns, so that what the machine does besides falls on both.
const repeats = Number(process.env['WHIZBANG_BENCH_REPEATS'] ?? 3);
const seconds = Number(process.env['WHIZBANG_BENCH_SECONDS'] ?? 8);

await using services = new BenchServices();
const [database, broker] = [await services.database(), await services.broker()];
const pool = services.pool(database, 2);
await pool.query('create table placed (number integer not null)');
await bindQueue();

const rates = { listening: [] as number[], polling: [] as number[] };
for (let repeat = 0; repeat < repeats; repeat += 1) {
  for (const kind of repeat % 2 === 0 ? (['listening', 'polling'] as const) : (['polling', 'listening'] as const)) {
    rates[kind].push(await measure(kind));
  }
}
const ratio = medianOf(rates.listening) / medianOf(rates.polling);
const rows = Object.entries(rates).map(([publishers, perSecond]) => ({
  publishers,
  'commits/s (median)': medianOf(perSecond),
  runs: perSecond.map((rate) => Math.round(rate)).join(', '),
}));
await report('enqueue', rows, [`listening / polling: ${ratio.toFixed(3)} (the goal is 0.9 or more)`]);

async function measure(kind: 'listening' | 'polling'): Promise<number> {
  const environment = { DATABASE_URL: database, BROKER_URL: broker, LISTEN: String(kind === 'listening') };
  const publishers = [start('publisher', environment), start('publisher', environment)];
  try {
    for (const publisher of publishers)
      await publisher.waitForMessage(({ started }) => started === true, { message: 'start', timeoutMs: 30_000 });
    await using load = start('enqueue-load', { ...environment, SECONDS: String(seconds) });
    const end = await load.waitForMessage(({ perSecond }) => perSecond !== undefined, {
      message: 'the end of the load',
      timeoutMs: seconds * 1000 + 30_000,
    });
    // The next run begins where this one did.
    await waitFor(async () => (await pool.query('select from whizbang.wh_outbox limit 1')).rowCount === 0, {
      message: 'an empty outbox',
      timeoutMs: 120_000,
    });
    return Number(end['perSecond']);
  } finally {
    for (const publisher of publishers) {
      publisher.kill('SIGTERM');
      await publisher.exited;
    }
  }
}

function start(name: string, environment: NodeJS.ProcessEnv): Program {
  return runProgram(fileURLToPath(new URL(`./${name}.process.js`, import.meta.url)), environment);
}

/** Somebody is subscribed, and keeps little: this is not about the broker. */
async function bindQueue(): Promise<void> {
  const model = await connect(broker);
  services.atEnd(() => model.close());
  const channel = await model.createChannel();
  await channel.assertExchange(OrderPlaced.destination, 'topic', { durable: true });
  const { queue } = await channel.assertQueue('', { exclusive: true, arguments: { 'x-max-length': 100 } });
  await channel.bindQueue(queue, OrderPlaced.destination, '#');
}
