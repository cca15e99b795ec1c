import { setTimeout as delay } from 'node:timers/promises';

import { waitFor } from '@whizbang/test/fixtures';
import pg from 'pg';

import { type ConfirmingPublisher, openPublisher } from './contenders/confirming-publisher.js';
import type { ContenderKey } from './contenders/index.js';
import { enterAll, settingsOf } from './drain-rates.js';
import { type Entry, startWorker } from './drain-run.js';
import { type Goal, atLeast, atMost, exactly } from './goals.js';
import { OrderPlaced, orderPlaced, sequenceOf } from './order-placed.js';
import { type Distribution, distributionOf } from './percentiles.js';
import { QueueWitness } from './queue-witness.js';
import { report } from './report.js';
import { inRounds } from './rounds.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// From the return of the commit to a plain consumer of the queue, at a pace that leaves everybody idle in between.
const perSecond = 50;
const seconds = sizeOf('SECONDS', 5);
const repeats = repeatsOf();
const warmUp = perSecond;
const peers = ['outbox-replication', 'graphile-worker', 'pg-boss'] as const;
// Beside them: every commit notifies, which 32 writers would pay for.
const keys = ['whizbang', ...peers, 'hand-notify-100'] as const satisfies readonly ContenderKey[];
/** `raw`: the application publishes by itself after its commit. `handler`: through the inbox of another service to our handler. */
const ways = [...keys, 'raw', 'handler'] as const;
type Way = (typeof ways)[number];

await using services = new BenchServices(peersPostgres);
const broker = await services.broker();
const witness = await QueueWitness.create(services, broker, 'quorum');
const entries = await enterAll(services, keys, () => 0);
for (const { pool } of Object.values(entries)) await pool.query('create table placed (customer text, amount integer)');
const publisher = await openPublisher(broker);
services.atEnd(() => publisher.close());
const names: Record<Way, string> = {
  ...(Object.fromEntries(keys.map((key) => [key, entries[key].contender.name])) as Record<
    (typeof keys)[number],
    string
  >),
  raw: 'commit, then publish by hand',
  handler: 'Whizbang → its handler in another service',
};
const latencies = Object.fromEntries(ways.map((way) => [way, [] as number[]])) as Record<Way, number[]>;
const medians = Object.fromEntries(ways.map((way) => [way, [] as number[]])) as Record<Way, number[]>;
const missing = Object.fromEntries(ways.map((way) => [way, 0])) as Record<Way, number>;
await inRounds(repeats, ways, async (way, round) => {
  const found = await (way === 'handler' ? toHandler() : toQueue(way));
  latencies[way].push(...found);
  medians[way].push(distributionOf(found).p50);
  missing[way] += perSecond * seconds - found.length;
  console.log(`round ${round + 1}: ${names[way]}: p50 ${distributionOf(found).p50.toFixed(2)} ms`);
});
const of = Object.fromEntries(ways.map((way) => [way, distributionOf(latencies[way])])) as Record<Way, Distribution>;
await report({
  name: 'latency',
  measures: `milliseconds from the return of the commit to a plain consumer of a quorum queue, ${perSecond} messages a second`,
  rows: ways.map((way) => ({
    way: names[way],
    ...of[way],
    'p50 of the runs': medians[way].map((ms) => ms.toFixed(2)).join(', '),
  })),
  goals: goals(),
  settings: { repeats, seconds, perSecond, ...settingsOf(entries) },
  versions: services.versions,
  remarks: ways
    .filter((way) => missing[way] > 0)
    .map((way) => `${names[way]}: ${missing[way]} messages did not arrive within ten seconds.`),
  chart: {
    title: 'latency: commit → consumer',
    unit: 'ms',
    series: ['p50', 'p95', 'p99'],
    bars: ways.map((way) => ({
      label: names[way],
      values: [of[way].p50, of[way].p95, of[way].p99],
      ours: way === 'whizbang' || way === 'handler',
    })),
  },
});

function goals(): Goal[] {
  const ahead = (['p50', 'p95', 'p99'] as const).map((share) => {
    const best = Math.min(...peers.map((key) => of[key][share]));
    return atLeast(`${share}: the best peer's ÷ ours`, best / of.whizbang[share], 1);
  });
  return [
    ...ahead,
    atMost('p50: × commit, publish, deliver by hand', of.whizbang.p50 / of.raw.p50, 2),
    exactly("Whizbang's messages that did not arrive within ten seconds", missing.whizbang + missing.handler, 0),
  ];
}

async function toQueue(way: Exclude<Way, 'handler'>): Promise<number[]> {
  const entry = entries[way === 'raw' ? 'whizbang' : way];
  await witness.purge();
  await entry.contender.reset(entry.pool);
  const job = { database: entry.database, broker, sink: 'rabbitmq', count: 0, streams: 1000 } as const;
  await using worker = way === 'raw' ? undefined : startWorker({ contender: way, ...job });
  await worker?.waitForMessage(({ started }) => started === true, { message: 'the worker', timeoutMs: 120_000 });
  const arrivals: number[] = [];
  const stop = await witness.consume((body) => (arrivals[sequenceOf(body)] ??= performance.now()));
  const found = await atPace(entry, arrivals, way === 'raw' ? publisher : undefined);
  await stop();
  worker?.kill();
  await worker?.exited;
  await entry.contender.leave?.(entry.pool);
  return found;
}

async function toHandler(): Promise<number[]> {
  const entry = entries.whizbang;
  await entry.contender.reset(entry.pool);
  const arrivals: number[] = [];
  await using shippingServices = new BenchServices();
  const shipping = await shippingServices.service({ service: 'shipping', database: await services.database(), broker });
  shipping.handle(OrderPlaced, ({ sequence }) => void (arrivals[sequence] ??= performance.now()));
  await shipping.start();
  const job = { database: entry.database, broker, sink: 'rabbitmq', count: 0, streams: 1000 } as const;
  await using worker = startWorker({ contender: 'whizbang', ...job });
  await worker.waitForMessage(({ started }) => started === true, { message: 'the worker', timeoutMs: 120_000 });
  const found = await atPace(entry, arrivals, undefined);
  worker.kill();
  await worker.exited;
  return found;
}

/** Stores at the pace, and says how long each took to arrive after its commit had returned; without the first second. */
async function atPace(
  { contender, database }: Entry,
  arrivals: readonly number[],
  byHand: ConfirmingPublisher | undefined,
): Promise<number[]> {
  const pool = new pg.Pool({ connectionString: database, max: 8 });
  const producer = await contender.producer(database);
  const committed: number[] = [];
  const total = warmUp + perSecond * seconds;
  const publish = async (sequence: number): Promise<void> => {
    const client = await pool.connect();
    const order = orderPlaced(sequence);
    await client.query('begin');
    await client.query('insert into placed (customer, amount) values ($1, $2)', [order.order, sequence]);
    if (byHand === undefined) await producer.store(client, [order]);
    await client.query('commit');
    committed[sequence] = performance.now();
    client.release();
    await byHand?.publish(Buffer.from(JSON.stringify(order)));
  };
  // Workers that have just started are still looking for what was there before.
  await delay(1_500);
  const begun = performance.now();
  const publishing: Promise<void>[] = [];
  for (let sequence = 0; sequence < total; sequence += 1) {
    await delay(Math.max(0, begun + (sequence * 1000) / perSecond - performance.now()));
    publishing.push(publish(sequence));
  }
  await Promise.all(publishing);
  const arrived = (): number => arrivals.reduce((count) => count + 1, 0);
  await waitFor(() => arrived() === total, { message: 'all messages', timeoutMs: 10_000 }).catch(() => undefined);
  await producer.close();
  await pool.end();
  return committed.slice(warmUp).flatMap((at, index) => {
    const then = arrivals[index + warmUp];
    return then === undefined ? [] : [Math.max(0, then - at)];
  });
}
