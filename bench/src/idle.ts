import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { type Program, runProgram } from '@whizbang/test/fixtures';

import { enterAll, settingsOf } from './drain-rates.js';
import { startWorker } from './drain-run.js';
import { atMost } from './goals.js';
import { medianOf } from './percentiles.js';
import { QueueWitness } from './queue-witness.js';
import { report } from './report.js';
import { BenchServices, peersPostgres, untilAsleep } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// What everybody asks of Postgres and of the processor while there is nothing to do. All at once, each on a database of its own.
const seconds = sizeOf('SECONDS', 15);
const repeats = repeatsOf();
const peers = ['pg-boss', 'graphile-worker', 'outbox-polling', 'outbox-replication', 'hand-notify-100'] as const;

await using services = new BenchServices({ ...peersPostgres, track_activities: 'on' });
const broker = await services.broker();
await QueueWitness.create(services, broker, 'quorum');
const monitor = services.pool(services.postgresUrl === '' ? await services.emptyDatabase() : services.postgresUrl, 1);
const entries = await enterAll(services, peers, () => 0);
const ours = await services.database();
const watched: { name: string; database: string; program: Program; perSecond: number[]; cpu: number[] }[] = [];
const service = fileURLToPath(new URL('./idle-service.process.js', import.meta.url));
watch('Whizbang, all of it', ours, runProgram(service, { DATABASE_URL: ours, BROKER_URL: broker }));
for (const key of peers) {
  const { contender, database, pool } = entries[key];
  await contender.reset(pool);
  watch(
    contender.name,
    database,
    startWorker({ contender: key, database, broker, sink: 'rabbitmq', count: 0, streams: 1 }),
  );
}
for (const { program } of watched)
  await program.waitForMessage(({ started }) => started === true, { message: 'start', timeoutMs: 120_000 });
await untilAsleep(services.pool(ours, 1), 2);
// What is looked for at the start only.
await delay(5_000);
for (let round = 0; round < repeats; round += 1) {
  const before = await snapshot();
  await delay(seconds * 1000);
  const after = await snapshot();
  for (const [index, one] of watched.entries()) {
    const [from, to] = [before[index], after[index]];
    if (from === undefined || to === undefined) continue;
    one.perSecond.push((to.transactions - from.transactions) / ((to.at - from.at) / 1000));
    one.cpu.push(((to.cpuSeconds - from.cpuSeconds) / ((to.at - from.at) / 1000)) * 100);
  }
  console.log(
    `round ${round + 1}: ${watched.map(({ name, perSecond }) => `${name} ${perSecond.at(-1)?.toFixed(2)}/s`).join('; ')}`,
  );
}
for (const { program } of watched) {
  program.kill();
  await program.exited;
}
const [first] = watched;
await report({
  name: 'idle',
  measures: `transactions a second (a statement outside of BEGIN is one) and processor time of each process, ${seconds} s with nothing to do`,
  rows: watched.map(({ name, perSecond, cpu }) => ({
    process: name,
    'transactions/s': medianOf(perSecond),
    'runs, /s': perSecond.map((rate) => rate.toFixed(2)).join(', '),
    '% of a core': medianOf(cpu),
    'runs, %': cpu.map((share) => share.toFixed(2)).join(', '),
  })),
  goals: [
    atMost('queries a second', medianOf(first?.perSecond ?? []), 0.5),
    atMost('% of a core', medianOf(first?.cpu ?? []), 0.5),
  ],
  settings: {
    repeats,
    seconds,
    Whizbang: 'publisher, receiver, dispatcher, maintenance and recovery; defaults',
    ...settingsOf(entries),
  },
  versions: services.versions,
  chart: {
    title: 'idle: nothing to do',
    unit: 'transactions/s; % of a core',
    series: ['transactions/s', '% of a core'],
    bars: watched.map(({ name, perSecond, cpu }, index) => ({
      label: name,
      values: [medianOf(perSecond), medianOf(cpu)],
      ours: index === 0,
    })),
  },
});

function watch(name: string, database: string, program: Program): void {
  watched.push({ name, database: new URL(database).pathname.slice(1), program, perSecond: [], cpu: [] });
}

async function snapshot() {
  const taken = [];
  for (const { database, program } of watched) {
    const said = program.messages.length;
    program.kill('SIGUSR2');
    const { cpuSeconds } = await program.waitForMessage(
      (message) => message['cpuSeconds'] !== undefined && program.messages.indexOf(message) >= said,
      { message: 'its processor time', timeoutMs: 30_000 },
    );
    // From a database of its own, so that this question is not counted.
    const { rows } = await monitor.query<{ transactions: string }>(
      'select xact_commit + xact_rollback as transactions from pg_stat_database where datname = $1',
      [database],
    );
    taken.push({ cpuSeconds: Number(cpuSeconds), transactions: Number(rows[0]?.transactions), at: performance.now() });
  }
  return taken;
}
