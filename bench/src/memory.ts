import { waitFor } from '@whizbang/test/fixtures';

import { enter, startWorker } from './drain-run.js';
import { atMost } from './goals.js';
import { sides, store } from './growth-side.js';
import { MemorySampling } from './memory-sampling.js';
import { orderPlaced } from './order-placed.js';
import { report } from './report.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// The resident memory of a publisher: over a million messages, fifth by fifth, and with bodies of 1 MB, few and many.
const count = sizeOf('MESSAGES', 1_000_000);
const parts = 5;
const mebi = 1024 ** 2;
const repeats = repeatsOf();

await using services = new BenchServices(peersPostgres);
const entry = await enter(services, 'whizbang', 0);
const [outbox] = sides;
if (outbox === undefined) throw new Error('There is no outbox.');
const small = JSON.stringify(orderPlaced(0));
const fifths = await manySmall(outbox, small);
const large = { few: [] as number[], many: [] as number[] };
for (let round = 0; round < repeats; round += 1) {
  large.few.push(await someLarge(outbox, 40));
  large.many.push(await someLarge(outbox, 160));
}
const [first = NaN, ...later] = fifths;
const highest = (values: readonly number[]): number => Math.max(...values);
await report({
  name: 'memory',
  measures: `the highest resident memory of a publisher's process, in MiB, sampled every 100 ms: ${count} messages of 1 KB, and bodies of 1 MB; in-process transport`,
  rows: [
    ...fifths.map((peak, index) => ({ what: `1 KB, part ${index + 1} of ${parts}`, 'highest MiB': peak, runs: '' })),
    { what: '40 bodies of 1 MB', 'highest MiB': highest(large.few), runs: large.few.map(Math.round).join(', ') },
    { what: '160 bodies of 1 MB', 'highest MiB': highest(large.many), runs: large.many.map(Math.round).join(', ') },
  ],
  goals: [
    atMost('the highest of the later parts / that of the first', highest(later) / first, 1.1),
    atMost('bodies of 1 MB: 160 / 40', highest(large.many) / highest(large.few), 1.1),
  ],
  settings: { messages: count, parts, repeats, 'bytes of a batch': '4 MiB, the default' },
  versions: services.versions,
  chart: {
    title: 'memory: resident memory of a publisher',
    unit: 'MiB',
    bars: [
      ...fifths.map((peak, index) => ({ label: `1 KB, part ${index + 1} of ${parts}`, values: [peak], ours: true })),
      { label: '40 bodies of 1 MB', values: [highest(large.few)], ours: true },
      { label: '160 bodies of 1 MB', values: [highest(large.many)], ours: true },
    ],
  },
});

async function manySmall(side: (typeof sides)[number], body: string): Promise<number[]> {
  await entry.contender.reset(entry.pool);
  await using worker = await startedWorker();
  const peaks: number[] = [];
  for (let part = 0; part < parts; part += 1) {
    const sampling = new MemorySampling(worker);
    for (let stored = 0; stored < count / parts; stored += 5_000)
      await store(entry.pool, side, Math.min(5_000, count / parts - stored), body);
    await drained();
    peaks.push(await sampling.end());
    console.log(`part ${part + 1}: ${Math.round(peaks.at(-1) ?? 0)} MiB`);
  }
  return peaks;
}

async function someLarge(side: (typeof sides)[number], bodies: number): Promise<number> {
  await entry.contender.reset(entry.pool);
  const body = JSON.stringify({ ...orderPlaced(0), lines: 'x'.repeat(mebi) });
  for (let stored = 0; stored < bodies; stored += 10) await store(entry.pool, side, 10, body);
  await using worker = await startedWorker();
  const sampling = new MemorySampling(worker);
  await drained();
  return await sampling.end();
}

async function startedWorker() {
  const worker = startWorker({
    contender: 'whizbang',
    database: entry.database,
    broker: '',
    sink: 'memory',
    count: 0,
    streams: 1,
  });
  await worker.waitForMessage(({ started }) => started === true, { message: 'the worker', timeoutMs: 120_000 });
  return worker;
}

async function drained(): Promise<void> {
  const pending = 'select from whizbang.wh_outbox limit 1';
  await waitFor(async () => (await entry.pool.query(pending)).rowCount === 0, {
    message: 'an empty outbox',
    timeoutMs: 600_000,
    intervalMs: 20,
  });
}
