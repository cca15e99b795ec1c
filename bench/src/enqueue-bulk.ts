import { enterAll, settingsOf } from './drain-rates.js';
import { enqueue } from './enqueue-run.js';
import { atLeast } from './goals.js';
import { ratioOf } from './percentiles.js';
import { emptyRates, rateBar, rateRow } from './rates.js';
import { report } from './report.js';
import { inRounds } from './rounds.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// A thousand messages in one call and one transaction, one connection, nobody publishing.
const seconds = sizeOf('SECONDS', 3);
const repeats = repeatsOf();
const peers = ['pg-boss', 'graphile-worker', 'outbox-replication', 'hand-delete-1000'] as const;
const keys = ['whizbang', 'bare-insert', ...peers] as const;

await using services = new BenchServices(peersPostgres);
const entries = await enterAll(services, keys, () => 0);
const rates = Object.fromEntries(keys.map((key) => [key, emptyRates(entries[key].contender.name)])) as Record<
  (typeof keys)[number],
  ReturnType<typeof emptyRates>
>;
await inRounds(repeats, keys, async (key, round) => {
  const perSecond = await enqueue(entries[key], { connections: 1, batch: 1000, seconds });
  rates[key].perSecond.push(perSecond);
  console.log(`round ${round + 1}: ${rates[key].name}: ${Math.round(perSecond)}/s`);
});
const over = (key: (typeof keys)[number]): number => ratioOf(rates.whizbang.perSecond, rates[key].perSecond);
await report({
  name: 'enqueue-bulk',
  measures:
    'messages of 1 KB stored a second, 1,000 in one call and one transaction with a row of the business, one connection',
  rows: keys.map((key) => rateRow(rates[key].name, rates[key])),
  goals: [
    atLeast('of a bare multi-row INSERT of the same rows', over('bare-insert'), 0.7),
    ...(['pg-boss', 'graphile-worker', 'outbox-replication'] as const).map((key) =>
      atLeast(`× ${rates[key].name}`, over(key), 1),
    ),
  ],
  settings: { repeats, seconds, ...settingsOf(entries) },
  versions: services.versions,
  chart: {
    title: 'enqueue-bulk: 1,000 messages in one call',
    unit: 'messages/s',
    bars: keys.map((key) => rateBar(rates[key].name, rates[key], key === 'whizbang')),
  },
});
