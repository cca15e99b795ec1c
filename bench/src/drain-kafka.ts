import { drainRates, enterAll, limitOf, settingsOf, troubleIn } from './drain-rates.js';
import { atLeast, exactly } from './goals.js';
import { KafkaWitness } from './kafka-witness.js';
import { OrderPlaced } from './order-placed.js';
import { ratioOf } from './percentiles.js';
import { rateBar, rateRow, troublesOf } from './rates.js';
import { report } from './report.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// The same as drain, into a topic of six partitions, confirmed by all in-sync replicas; of which there is one here.
const count = sizeOf('MESSAGES', 50_000);
const repeats = repeatsOf();
const keys = ['whizbang', 'hand-delete-1000', 'raw-kafka', 'raw-claim'] as const;

await using services = new BenchServices(peersPostgres);
const broker = await services.kafka([OrderPlaced.destination], 6);
const entries = await enterAll(services, keys, () => count);
const witness = new KafkaWitness(broker, OrderPlaced.destination);
const rates = await drainRates(entries, keys, repeats, (key) => ({
  sink: key === 'raw-claim' ? 'none' : 'kafka',
  broker,
  witness,
}));
const ours = rates.whizbang.perSecond;
const limit = limitOf(rates['raw-claim'].perSecond, rates['raw-kafka'].perSecond);
await report({
  name: 'drain-kafka',
  measures: `${count} messages of 1 KB waiting → a Kafka topic of six partitions, acks all, one process`,
  rows: keys.map((key) => rateRow(rates[key].name, rates[key])),
  goals: [
    atLeast('of the limit 1 / (1 / claim and delete + 1 / kafkajs)', ratioOf(ours, limit), 0.8),
    exactly("Whizbang's messages lost or doubled", troubleIn(rates.whizbang), 0),
  ],
  settings: { repeats, ...settingsOf(entries) },
  versions: services.versions,
  remarks: troublesOf(Object.values(rates)),
  chart: {
    title: 'drain-kafka: an outbox into Kafka, acks all',
    unit: 'messages/s',
    bars: keys.map((key) => rateBar(rates[key].name, rates[key], key === 'whizbang')),
  },
});
