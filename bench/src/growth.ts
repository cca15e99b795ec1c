import { createWhizbang } from '@whizbang/core';
import type pg from 'pg';

import { type Side, claim, complete, fill, sides, store } from './growth-side.js';
import { type Goal, atMost } from './goals.js';
import { distributionOf, medianOf } from './percentiles.js';
import { report } from './report.js';
import { BenchServices } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// What a service pays for what waits in its tables: claims of other streams beside those on empty tables of the same server, in
// turns, so that what the machine does besides falls on both; and what operators and the sentinel ask.
const waiting = sizeOf('ROWS', 1_000_000);
const dead = waiting / 10;
const rounds = repeatsOf(40);
const batchesPerRound = 10;
const calls = 50;
// Autovacuum comes to a table after 20,000 dead rows, looks once a minute, and at one database after the other: whichever it came to
// last would be ahead for the rest of the run. So it is off, and both are vacuumed at the same point.
const deadBeforeVacuum = 20_000;
const body = JSON.stringify({ order: 'order-1', lines: 'x'.repeat(1000) });

// As a server for tables of this size would have them; fsync and commits as by default.
await using services = new BenchServices({ shared_buffers: '1GB', max_wal_size: '8GB', autovacuum: 'off' });
const databases = { empty: await database(), full: await database() };
const begunFilling = performance.now();
for (const side of sides) await fill(databases.full, side, { waiting, dead }, body);
await databases.full.query('vacuum analyze');
await databases.full.query('checkpoint');
console.log(`filled in ${Math.round((performance.now() - begunFilling) / 1000)} s`);

const rows = [];
const goals: Goal[] = [];
const remarks: string[] = [];
for (const side of sides) {
  const times = { empty: timesOf(), full: timesOf() };
  const roundsPerVacuum = Math.ceil(deadBeforeVacuum / (side.batch * batchesPerRound));
  for (let round = -2; round < rounds; round += 1) {
    const order = round % 2 === 0 ? (['empty', 'full'] as const) : (['full', 'empty'] as const);
    if (round % roundsPerVacuum === 0) {
      for (const which of order) await databases[which].query(`vacuum whizbang.wh_${side.name}`);
    }
    for (const which of order) await store(databases[which], side, side.batch * batchesPerRound, body);
    for (let index = 0; index < batchesPerRound; index += 1) {
      // The first two rounds read catalogs and pages for the first time.
      for (const which of order) await exchange(databases[which], side, round < 0 ? timesOf() : times[which]);
    }
  }
  for (const what of ['claim', 'complete'] as const) {
    for (const which of ['empty', 'full'] as const) {
      rows.push({ what: `${what} of ${side.batch}, ${side.name}, ${which}`, ...distributionOf(times[which][what]) });
    }
    const ratio = medianOf(times.full[what]) / medianOf(times.empty[what]);
    // Nothing is promised of completions; their ratio is told.
    if (what === 'claim') goals.push(atMost(`${side.name}, claim: full / empty`, ratio, 1.1));
    else remarks.push(`${side.name}, complete: full / empty ${ratio.toFixed(3)}.`);
  }
}

const whizbang = await createWhizbang({ service: 'bench', database: databases.full, broker: 'memory:' });
services.atEnd(() => whizbang.stop());
const asked = [
  { what: 'status()', ...(await timed(() => whizbang.status())) },
  ...(await Promise.all(
    sides.map(async ({ name }) => {
      const sentinel = `select * from whizbang.find_stuck_${name}_rows(10, 50)`;
      return { what: `sentinel, ${name}`, ...(await timed(() => databases.full.query(sentinel))) };
    }),
  )),
];
rows.push(...asked);
// A look at a stream touches pages far apart. What the processor pays to find them in memory is most of what a full table adds.
const { rows: memory } = await databases.full.query<{ pages: string | null }>(
  "select current_setting('huge_pages_status', true) as pages",
);
await report({
  name: 'growth',
  measures: `milliseconds of a claim and of its completion, beside ${waiting} rows behind one failed head, ${waiting} scheduled for next week and ${dead} dead letters in each table, and on empty tables`,
  rows,
  goals: [...goals, ...asked.map(({ what, p50 }) => atMost(`${what}: ms`, p50, 50))],
  settings: {
    rounds,
    batchesPerRound,
    waiting,
    dead,
    'bytes of a body': body.length,
    'huge pages': memory[0]?.pages ?? 'unknown',
  },
  versions: services.versions,
  remarks,
  chart: {
    title: 'growth: claims beside what waits',
    unit: 'ms',
    series: ['p50', 'p95'],
    bars: rows.map(({ what, p50, p95 }) => ({ label: what, values: [p50, p95], ours: what.endsWith('full') })),
  },
});

async function database(): Promise<pg.Pool> {
  return services.pool(await services.database(), 2);
}

function timesOf() {
  return { claim: [] as number[], complete: [] as number[] };
}

async function exchange(pool: pg.Pool, side: Side, times: ReturnType<typeof timesOf>): Promise<void> {
  const begun = performance.now();
  const claimed = await claim(pool, side, side.batch);
  times.claim.push(performance.now() - begun);
  if (claimed.length !== side.batch) throw new Error(`${claimed.length} rows were claimed instead of ${side.batch}`);
  const claimedAt = performance.now();
  await complete(pool, side, claimed);
  times.complete.push(performance.now() - claimedAt);
}

async function timed(call: () => Promise<unknown>) {
  const durations: number[] = [];
  for (let index = 0; index < calls; index += 1) {
    const begun = performance.now();
    await call();
    durations.push(performance.now() - begun);
  }
  return distributionOf(durations);
}
