import { drainRates, enterAll, settingsOf, troubleIn } from './drain-rates.js';
import { atLeast, exactly } from './goals.js';
import { medianOf, ratioOf } from './percentiles.js';
import { QueueWitness } from './queue-witness.js';
import { rateBar, rateRow, troublesOf } from './rates.js';
import { report } from './report.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// What strict order costs: over many streams, where it should cost little, and over ten, where a message waits for the one before.
const count = sizeOf('MESSAGES', 20_000);
const repeats = repeatsOf();
const manyKeys = ['whizbang', 'whizbang-unordered', 'pg-boss-ordered'] as const;
const fewMemoryKeys = ['whizbang', 'pg-boss-ordered-10', 'graphile-worker-ordered'] as const;
const fewBrokerKeys = ['whizbang', 'outbox-polling-ordered', 'outbox-replication-ordered'] as const;

await using services = new BenchServices(peersPostgres);
const broker = await services.broker();
const witness = await QueueWitness.create(services, broker, 'quorum');
const many = await enterAll(
  services,
  manyKeys,
  (key) => (key === 'pg-boss-ordered' ? Math.ceil(count / 4) : count),
  1000,
);
const fewMemory = await enterAll(
  services,
  fewMemoryKeys,
  (key) => (key === 'whizbang' ? count : Math.ceil(count / 8)),
  10,
);
const fewBroker = await enterAll(
  services,
  fewBrokerKeys,
  (key) => (key === 'whizbang' ? Math.ceil(count / 2) : Math.ceil(count / 20)),
  10,
);

const onBroker = () => ({ sink: 'rabbitmq', broker, witness, readAll: true }) as const;
const inMemory = () => ({ sink: 'memory' }) as const;
const manyBroker = await drainRates(many, ['whizbang', 'whizbang-unordered'], repeats, onBroker);
const manyInside = await drainRates(many, manyKeys, repeats, inMemory);
const fewInside = await drainRates(fewMemory, fewMemoryKeys, repeats, inMemory);
const fewOutside = await drainRates(fewBroker, fewBrokerKeys, repeats, onBroker);
const parts = [
  { where: '1,000 streams, RabbitMQ', rates: Object.values(manyBroker) },
  { where: '1,000 streams, in-process', rates: Object.values(manyInside) },
  { where: '10 streams, in-process', rates: Object.values(fewInside) },
  { where: '10 streams, RabbitMQ', rates: Object.values(fewOutside) },
];
const all = parts.flatMap(({ where, rates }) => rates.map((one) => ({ label: `${where}: ${one.name}`, one })));
const best = (ours: readonly number[], theirs: readonly { perSecond: number[] }[]): number =>
  Math.min(...theirs.map(({ perSecond }) => medianOf(ours) / medianOf(perSecond)));
await report({
  name: 'ordered',
  measures: `${count} messages of 1 KB in strict order of their streams, one process; all that arrives is checked for its order`,
  rows: all.map(({ label, one }) => rateRow(label, one)),
  goals: [
    atLeast(
      '1,000 streams, RabbitMQ: of unordered',
      ratioOf(manyBroker.whizbang.perSecond, manyBroker['whizbang-unordered'].perSecond),
      0.8,
    ),
    atLeast(
      '1,000 streams, in-process: of unordered',
      ratioOf(manyInside.whizbang.perSecond, manyInside['whizbang-unordered'].perSecond),
      0.8,
    ),
    atLeast(
      '10 streams, in-process: × the best ordered peer',
      best(fewInside.whizbang.perSecond, [fewInside['pg-boss-ordered-10'], fewInside['graphile-worker-ordered']]),
      5,
    ),
    atLeast(
      '10 streams, RabbitMQ: × pg-transactional-outbox',
      best(fewOutside.whizbang.perSecond, [
        fewOutside['outbox-polling-ordered'],
        fewOutside['outbox-replication-ordered'],
      ]),
      3,
    ),
    exactly(
      "Whizbang's messages lost, doubled or out of order",
      [manyBroker, manyInside, fewInside, fewOutside].reduce((sum, { whizbang }) => sum + troubleIn(whizbang), 0),
      0,
    ),
  ],
  settings: {
    repeats,
    ...settingsOf(many),
    ...Object.fromEntries(
      Object.entries({ ...settingsOf(fewMemory), ...settingsOf(fewBroker) }).map(([name, text]) => [
        `${name}, 10 streams`,
        text,
      ]),
    ),
  },
  versions: services.versions,
  remarks: parts.flatMap(({ where, rates }) =>
    // Who promises no order is not reproached for it.
    troublesOf(rates.filter(({ name }) => !name.includes('without streams'))).map((trouble) => `${where}: ${trouble}`),
  ),
  chart: {
    title: 'ordered: strict order of each stream',
    unit: 'messages/s',
    bars: all.map(({ label, one }) => rateBar(label, one, one.name.startsWith('Whizbang'))),
  },
});
