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

// One outbox, drained by one, two and four publisher processes at once. The clock starts when they are warm: four processes
// compile the same code four times, which says nothing about how they share an outbox.
const count = sizeOf('MESSAGES', 50_000);
const warm = count * 0.4;
const repeats = repeatsOf();
const sizes = ['1', '2', '4'] as const;
// From the end that is drained last: counting what waits, 50 times a second, took more of Postgres than a publisher does.
const lastPending = `select from whizbang.wh_outbox
  where processed_at is null and scheduled_for is null order by sequence desc limit 1`;

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
  settings: { repeats, messages: count, 'to get warm': warm, streams: 1000, Whizbang: 'defaults' },
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
    await waitFor(async () => (await entry.pool.query(lastPending)).rowCount === 0, {
      message: 'an empty outbox',
      timeoutMs: 120_000,
      intervalMs: 20,
    });
    const end = performance.timeOrigin + performance.now();
    const told = await Promise.all(
      workers.map(async (worker) => {
        worker.kill('SIGUSR2');
        return worker.waitForMessage(({ through }) => through !== undefined, { message: 'a count', timeoutMs: 30_000 });
      }),
    );
    const counts = told.map(({ through }) => Number(through));
    const { at, through } = whenWarm(told.map(({ progress }) => progress as Progress[]));
    rates[size].perSecond.push(((count - through) / (end - at)) * 1000);
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

interface Progress {
  readonly at: number;
  readonly through: number;
}

/** When the processes had published enough together to be warm, and how much exactly. */
function whenWarm(processes: readonly (readonly Progress[])[]): Progress {
  const steps = processes
    .flatMap((all) => all.map(({ at, through }, index) => ({ at, more: through - (all[index - 1]?.through ?? 0) })))
    .toSorted((one, other) => one.at - other.at);
  let through = 0;
  for (const { at, more } of steps) {
    through += more;
    if (through >= warm) return { at, through };
  }
  throw new Error(`only ${through} of ${count} messages were counted`);
}
