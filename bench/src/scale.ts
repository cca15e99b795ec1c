import { waitFor } from '@whizbang/test/fixtures';

import { enter, fill, startWorker } from './drain-run.js';
import { atLeast, atMost, exactly } from './goals.js';
import { medianOf, ratioOf } from './percentiles.js';
import { QueueWitness } from './queue-witness.js';
import { type Rates, emptyRates, rateBar, rateRow, troublesOf } from './rates.js';
import { report } from './report.js';
import { inRounds } from './rounds.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// One outbox, drained by one, two and four publisher processes at once.
const count = sizeOf('MESSAGES', 30_000);
const repeats = repeatsOf();
const sizes = ['1', '2', '4'] as const;

await using services = new BenchServices(peersPostgres);
const broker = await services.broker();
const witness = await QueueWitness.create(services, broker, 'quorum');
const entry = await enter(services, 'whizbang', count);
const rates = Object.fromEntries(
  sizes.map((size) => [size, emptyRates(`${size} ${size === '1' ? 'process' : 'processes'}`)]),
) as Record<(typeof sizes)[number], Rates>;
const shares: Record<(typeof sizes)[number], number[]> = { '1': [], '2': [], '4': [] };
await inRounds(repeats, sizes, async (size, round) => {
  await run(size);
  console.log(`round ${round + 1}: ${rates[size].name}: ${Math.round(rates[size].perSecond.at(-1) ?? 0)}/s`);
});
const lost = Object.values(rates).flatMap(({ trouble }) => trouble);
await report({
  name: 'scale',
  measures: `${count} messages of 1 KB waiting → RabbitMQ, by several publisher processes at once`,
  rows: sizes.map((size) => ({
    ...rateRow(rates[size].name, rates[size]),
    'most / least of a process': medianOf(shares[size]),
  })),
  goals: [
    atLeast('2 processes: of the rate of one', ratioOf(rates['2'].perSecond, rates['1'].perSecond), 0.9),
    atLeast('4 processes: of the rate of one', ratioOf(rates['4'].perSecond, rates['1'].perSecond), 0.9),
    atMost('4 processes: most rows of a process / least', medianOf(shares['4']), 2),
    exactly(
      'messages lost, doubled or out of order',
      lost.reduce((sum, one) => sum + one.lost + one.doubled + one.outOfOrder, 0),
      0,
    ),
  ],
  settings: { repeats, messages: count, streams: 1000, Whizbang: 'defaults' },
  versions: services.versions,
  remarks: troublesOf(Object.values(rates)),
  chart: {
    title: 'scale: publisher processes on one outbox',
    unit: 'messages/s',
    bars: sizes.map((size) => rateBar(rates[size].name, rates[size], true)),
  },
});

async function run(size: (typeof sizes)[number]): Promise<void> {
  await witness.purge();
  await fill(entry);
  const task = {
    contender: 'whizbang',
    database: entry.database,
    broker,
    sink: 'rabbitmq',
    count: 0,
    streams: 1000,
  } as const;
  const workers = Array.from({ length: Number(size) }, () => startWorker(task));
  try {
    await Promise.all(
      workers.map((worker) =>
        worker.waitForMessage(({ started }) => started === true, { message: 'start', timeoutMs: 120_000 }),
      ),
    );
    await waitFor(
      async () => (await entry.pool.query<{ pending: number }>(entry.contender.pending)).rows[0]?.pending === 0,
      { message: 'an empty outbox', timeoutMs: 120_000, intervalMs: 20 },
    );
    const end = performance.timeOrigin + performance.now();
    const told = await Promise.all(
      workers.map(async (worker) => {
        worker.kill('SIGUSR2');
        return worker.waitForMessage(({ through }) => through !== undefined, { message: 'a count', timeoutMs: 30_000 });
      }),
    );
    const counts = told.map(({ through }) => Number(through));
    const begun = Math.min(...told.map(({ firstAt }) => Number(firstAt ?? end)));
    rates[size].perSecond.push((count / (end - begun)) * 1000);
    shares[size].push(Math.max(...counts) / Math.min(...counts));
    const { missing, duplicates, outOfOrder } = await witness.read(count, 1000);
    rates[size].trouble.push({ lost: missing, doubled: duplicates, outOfOrder });
  } finally {
    for (const worker of workers) {
      worker.kill('SIGTERM');
      await worker.exited;
    }
  }
}
