import type { ContenderKey } from './contenders/index.js';
import { type RatesBy, drainRates, enterAll, limitOf, settingsOf, troubleIn } from './drain-rates.js';
import { type Goal, atLeast, exactly } from './goals.js';
import { ratioOf } from './percentiles.js';
import { QueueWitness } from './queue-witness.js';
import { rateBar, rateRow, troublesOf } from './rates.js';
import { report } from './report.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// How fast one process empties an outbox into RabbitMQ, with confirms.
const count = sizeOf('MESSAGES', 50_000);
const repeats = repeatsOf();
const jobQueues = ['pg-boss', 'graphile-worker'] as const;
const limits = ['raw-confirms', 'raw-claim'] as const;
const keysOf = {
  quorum: [
    'whizbang',
    'hand-delete-100',
    'hand-delete-1000',
    'hand-update-100',
    'hand-update-1000',
    ...jobQueues,
    'outbox-polling',
    'outbox-replication',
    ...limits,
  ],
  // What lost clearly on the quorum queue does not run again, and the claims know nothing of queues.
  classic: ['whizbang', 'hand-delete-1000', ...jobQueues, 'raw-confirms'],
} as const satisfies Readonly<Record<string, readonly ContenderKey[]>>;
type Key = (typeof keysOf.quorum)[number];

await using services = new BenchServices(peersPostgres);
const broker = await services.broker();
const entries = await enterAll(services, keysOf.quorum, countOf);
const results: { queueType: string; rates: RatesBy<Key> }[] = [];
for (const queueType of ['quorum', 'classic'] as const) {
  const witness = await QueueWitness.create(services, broker, queueType);
  const keys: readonly Key[] = keysOf[queueType];
  console.log(queueType);
  const rates = await drainRates(entries, keys, repeats, (key, round) => ({
    sink: key === 'raw-claim' ? 'none' : 'rabbitmq',
    broker,
    witness,
    readAll: round === 0,
  }));
  results.push({ queueType, rates });
  await witness.remove();
}
const all = results.flatMap(({ queueType, rates }) =>
  Object.entries(rates).map(([key, ofKey]) => ({ key, label: `${queueType}: ${ofKey.name}`, rates: ofKey })),
);
await report({
  name: 'drain',
  measures: `${count} messages of 1 KB waiting → RabbitMQ with confirms, one process; from the first messages that are through to the empty table`,
  rows: all.map(({ label, rates }) => rateRow(label, rates)),
  goals: results.flatMap(({ queueType, rates }) => goalsOf(queueType, rates)),
  settings: { repeats, ...settingsOf(entries) },
  versions: services.versions,
  remarks: results.flatMap(({ queueType, rates }) =>
    troublesOf(Object.values(rates)).map((trouble) => `${queueType}: ${trouble}`),
  ),
  chart: {
    title: 'drain: an outbox into RabbitMQ, confirmed',
    unit: 'messages/s',
    bars: all.map(({ key, label, rates }) => rateBar(label, rates, key === 'whizbang')),
  },
});

function countOf(key: Key): number {
  if (key === 'outbox-polling' || key === 'outbox-replication') return Math.ceil(count / 100);
  return key === 'whizbang' || key === 'hand-delete-1000' ? count : Math.ceil(count / 2.5);
}

function goalsOf(queueType: string, rates: Partial<RatesBy<Key>> & Pick<RatesBy<Key>, 'whizbang'>): Goal[] {
  const ours = rates.whizbang.perSecond;
  const over = (what: string, prefix: string, needed: number): Goal[] => {
    const theirs = Object.entries(rates).filter(([key]) => key.startsWith(prefix));
    const ratios = theirs.map(([, { perSecond }]) => ratioOf(ours, perSecond));
    return ratios.length === 0 ? [] : [atLeast(`${queueType}: × ${what}`, Math.min(...ratios), needed)];
  };
  const claims = results[0]?.rates['raw-claim']?.perSecond ?? [];
  const limit = limitOf(claims, rates['raw-confirms']?.perSecond ?? []);
  return [
    atLeast(`${queueType}: of the limit 1 / (1 / claim and delete + 1 / confirms)`, ratioOf(ours, limit), 0.9),
    ...over('the best hand-written', 'hand-', 1.05),
    ...over('pg-boss, publishing', 'pg-boss', 1.3),
    ...over('graphile-worker, publishing', 'graphile-worker', 1.3),
    ...over('pg-transactional-outbox', 'outbox-', 7),
    exactly(`${queueType}: Whizbang's messages lost, doubled or out of order`, troubleIn(rates.whizbang), 0),
  ];
}
