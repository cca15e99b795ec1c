import type { ContenderKey } from './contenders/index.js';
import { drain, enter } from './drain-run.js';
import { type Goal, atLeast, exactly } from './goals.js';
import { ratioOf } from './percentiles.js';
import { QueueWitness } from './queue-witness.js';
import { type Rates, rateBar, rateRow, troublesOf } from './rates.js';
import { report } from './report.js';
import { inRounds } from './rounds.js';
import { peersPostgres, BenchServices } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// How fast one process empties an outbox into RabbitMQ, with confirms.
const count = sizeOf('MESSAGES', 50_000);
const repeats = repeatsOf();
// A rate needs no more messages than that of those that are slow, and theirs does not fall with less of them.
const counts: Partial<Record<ContenderKey, number>> = {
  'pg-boss': Math.ceil(count / 2.5),
  'graphile-worker': Math.ceil(count / 2.5),
  'outbox-polling': Math.ceil(count / 12.5),
  'outbox-replication': Math.ceil(count / 12.5),
};
const handWritten = ['hand-delete-100', 'hand-delete-1000', 'hand-update-100', 'hand-update-1000'] as const;
const jobQueues = ['pg-boss', 'graphile-worker'] as const;
const outboxes = ['outbox-polling', 'outbox-replication'] as const;
const keys = ['whizbang', ...handWritten, ...jobQueues, ...outboxes, 'raw-confirms', 'raw-claim'] as const;

await using services = new BenchServices(peersPostgres);
const broker = await services.broker();
const entries = new Map(
  await Promise.all(keys.map(async (key) => [key, await enter(services, key, counts[key] ?? count)] as const)),
);
const all: { queueType: string; key: (typeof keys)[number]; rates: Rates }[] = [];
const goals: Goal[] = [];
for (const queueType of ['quorum', 'classic'] as const) {
  const { witness, close } = await QueueWitness.create(broker, queueType);
  const rates = Object.fromEntries(
    keys.map((key) => [key, { name: entries.get(key)?.contender.name ?? key, perSecond: [], trouble: [] }]),
  ) as unknown as Record<(typeof keys)[number], Rates>;
  await inRounds(repeats, keys, async (key, round) => {
    const entry = entries.get(key);
    if (entry === undefined) return;
    const sink = key === 'raw-claim' ? 'none' : 'rabbitmq';
    const run = await drain(entry, { sink, broker, witness, readAll: round === 0 });
    rates[key].perSecond.push(run.perSecond);
    rates[key].trouble.push(run.trouble);
    console.log(`${queueType}, round ${round + 1}: ${rates[key].name} ${Math.round(run.perSecond)}/s`);
  });
  await witness.remove();
  await close();
  for (const key of keys) all.push({ queueType, key, rates: rates[key] });
  goals.push(...goalsOf(queueType, rates));
}
await report({
  name: 'drain',
  measures: `${count} messages of 1 KB waiting → RabbitMQ with confirms, one process, from the first messages that are through to the empty table`,
  rows: all.map(({ queueType, rates }) => rateRow(`${queueType}: ${rates.name}`, rates)),
  goals,
  settings: {
    messages: count,
    repeats,
    ...Object.fromEntries(
      [...entries.values()].map((entry) => [
        entry.contender.name,
        `${entry.contender.settings}; ${entry.count} messages`,
      ]),
    ),
  },
  versions: services.versions,
  remarks: all.flatMap(({ queueType, rates }) => troublesOf([rates]).map((trouble) => `${queueType}: ${trouble}`)),
  chart: {
    title: 'drain: an outbox into RabbitMQ, confirmed',
    unit: 'messages/s',
    bars: all.map(({ queueType, key, rates }) => rateBar(`${queueType}: ${rates.name}`, rates, key === 'whizbang')),
  },
});

function goalsOf(queueType: string, rates: Record<(typeof keys)[number], Rates>): Goal[] {
  const ours = rates.whizbang.perSecond;
  // Round by round: a claim and a confirm that never overlap.
  const limit = rates['raw-confirms'].perSecond.map(
    (confirms, round) => 1 / (1 / confirms + 1 / (rates['raw-claim'].perSecond[round] ?? NaN)),
  );
  const best = (of: readonly (typeof keys)[number][]): number =>
    Math.min(...of.map((key) => ratioOf(ours, rates[key].perSecond)));
  const troubles = rates.whizbang.trouble.reduce((sum, { lost, doubled }) => sum + lost + doubled, 0);
  return [
    atLeast(`${queueType}: of the limit 1 / (1 / claim and delete + 1 / confirms)`, ratioOf(ours, limit), 0.9),
    atLeast(`${queueType}: × the best hand-written`, best(handWritten), 1.05),
    atLeast(`${queueType}: × pg-boss, publishing`, best(['pg-boss']), 1.3),
    atLeast(`${queueType}: × graphile-worker, publishing`, best(['graphile-worker']), 1.3),
    atLeast(`${queueType}: × pg-transactional-outbox`, best(outboxes), 7),
    exactly(`${queueType}: Whizbang's messages lost or doubled`, troubles, 0),
  ];
}
