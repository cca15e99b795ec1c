import { connect } from 'amqplib';

import type { ContenderKey } from './contenders/index.js';
import { enterAll, settingsOf } from './drain-rates.js';
import { enqueue } from './enqueue-run.js';
import { atLeast } from './goals.js';
import { OrderPlaced } from './order-placed.js';
import { ratioOf } from './percentiles.js';
import { type Rates, emptyRates, rateBar, rateRow } from './rates.js';
import { report } from './report.js';
import { inRounds } from './rounds.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// What the outbox costs the transaction that uses it, while publishers publish what it stores and listen for more.
const seconds = sizeOf('SECONDS', 3);
const repeats = repeatsOf();
const peers = ['pg-boss', 'graphile-worker', 'outbox-replication', 'hand-notify-100'] as const;
const keys = ['whizbang', 'bare-insert', ...peers] as const satisfies readonly ContenderKey[];
type Key = (typeof keys)[number];

await using services = new BenchServices(peersPostgres);
const broker = await services.broker();
await bindQueue();
const entries = await enterAll(services, keys, () => 0);
const runs: Record<string, { key: Key; connections: number; rates: Rates }> = {};
for (const connections of [1, 8, 32]) {
  for (const key of connections === 32 ? keys : (['whizbang', 'bare-insert'] as const)) {
    const name = `${connections} ${connections === 1 ? 'connection' : 'connections'}: ${entries[key].contender.name}`;
    runs[`${key} ${connections}`] = { key, connections, rates: emptyRates(name) };
  }
}
await inRounds(repeats, Object.keys(runs), async (name, round) => {
  const run = runs[name];
  if (run === undefined) return;
  const perSecond = await enqueue(entries[run.key], { connections: run.connections, batch: 1, seconds, broker });
  run.rates.perSecond.push(perSecond);
  console.log(`round ${round + 1}: ${run.rates.name}: ${Math.round(perSecond)}/s`);
});
const ratio = (connections: number, key: Key): number =>
  ratioOf(runs[`whizbang ${connections}`]?.rates.perSecond ?? [], runs[`${key} ${connections}`]?.rates.perSecond ?? []);
await report({
  name: 'enqueue',
  measures:
    'transactions a second with one row of the business and one message of 1 KB, beside a worker that listens and publishes to RabbitMQ',
  rows: Object.values(runs).map(({ rates }) => rateRow(rates.name, rates, 'transactions/s')),
  goals: [
    ...[1, 8, 32].map((connections) =>
      atLeast(`${connections} connections: of a bare INSERT of the same row`, ratio(connections, 'bare-insert'), 0.9),
    ),
    atLeast('32 connections: × pg-transactional-outbox', ratio(32, 'outbox-replication'), 1.2),
    atLeast('32 connections: × graphile-worker', ratio(32, 'graphile-worker'), 2),
    atLeast('32 connections: × pg-boss', ratio(32, 'pg-boss'), 2),
  ],
  settings: { repeats, seconds, ...settingsOf(entries) },
  versions: services.versions,
  chart: {
    title: 'enqueue: one business row and one message in a transaction',
    unit: 'transactions/s',
    bars: Object.values(runs).map(({ key, rates }) => rateBar(rates.name, rates, key === 'whizbang')),
  },
});

/** Somebody is subscribed, and keeps little: this is not about the broker. */
async function bindQueue(): Promise<void> {
  const model = await connect(broker);
  services.atEnd(() => model.close());
  const channel = await model.createChannel();
  await channel.assertExchange(OrderPlaced.destination, 'topic', { durable: true });
  const { queue } = await channel.assertQueue('', { exclusive: true, arguments: { 'x-max-length': 100 } });
  await channel.bindQueue(queue, OrderPlaced.destination, '#');
}
