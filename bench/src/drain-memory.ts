import { drainRates, enterAll, settingsOf, troubleIn } from './drain-rates.js';
import { atLeast, exactly } from './goals.js';
import { ratioOf } from './percentiles.js';
import { rateBar, rateRow, troublesOf } from './rates.js';
import { report } from './report.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// What a message costs apart from any broker: into the in-process transport, beside job queues whose handler does nothing.
const count = sizeOf('MESSAGES', 50_000);
const repeats = repeatsOf();
const keys = ['whizbang', 'graphile-worker', 'pg-boss', 'hand-delete-1000', 'raw-claim'] as const;

await using services = new BenchServices(peersPostgres);
const entries = await enterAll(services, keys, () => count);
const rates = await drainRates(entries, keys, repeats, (key) => ({ sink: key === 'raw-claim' ? 'none' : 'memory' }));
const ours = rates.whizbang.perSecond;
await report({
  name: 'drain-memory',
  measures: `${count} messages of 1 KB waiting → in-process transport, or a handler that does nothing, one process`,
  rows: keys.map((key) => rateRow(rates[key].name, rates[key])),
  goals: [
    atLeast('× graphile-worker, batched', ratioOf(ours, rates['graphile-worker'].perSecond), 1.2),
    atLeast('× pg-boss', ratioOf(ours, rates['pg-boss'].perSecond), 1.2),
    exactly("Whizbang's messages lost, doubled or out of order", troubleIn(rates.whizbang), 0),
  ],
  settings: { repeats, ...settingsOf(entries) },
  versions: services.versions,
  remarks: troublesOf(Object.values(rates)),
  chart: {
    title: 'drain-memory: an outbox into the same process',
    unit: 'messages/s',
    bars: keys.map((key) => rateBar(rates[key].name, rates[key], key === 'whizbang')),
  },
});
