/** The benches there are: the name to pass to `npm run bench -- <name>`, and the module that runs when it is loaded. */
interface Bench {
  readonly measures: string;
  readonly load: () => Promise<unknown>;
}

const benches: ReadonlyMap<string, Bench> = new Map([
  ['enqueue', { measures: 'what the outbox costs the transaction that uses it', load: () => import('./enqueue.js') }],
  ['enqueue-bulk', { measures: 'the same, 1,000 messages a call', load: () => import('./enqueue-bulk.js') }],
  ['handle', { measures: 'from the inbox through a handler', load: () => import('./handle.js') }],
  ['latency', { measures: 'from the commit to a consumer of the queue', load: () => import('./latency.js') }],
  ['scale', { measures: 'one, two and four publisher processes', load: () => import('./scale.js') }],
  ['memory', { measures: 'resident memory over a million messages', load: () => import('./memory.js') }],
  [
    'growth',
    {
      measures: 'what claims, status and sentinel cost beside millions of rows that wait',
      load: () => import('./growth.js'),
    },
  ],
  ['growth-drain', { measures: 'how fast an outbox drains beside them', load: () => import('./growth-drain.js') }],
  ['idle', { measures: 'what it costs while there is nothing to do', load: () => import('./idle.js') }],
  ['drain-memory', { measures: 'the same into the in-process transport', load: () => import('./drain-memory.js') }],
  ['drain-kafka', { measures: 'the same into Kafka', load: () => import('./drain-kafka.js') }],
  ['ordered', { measures: 'what strict order costs', load: () => import('./ordered.js') }],
  ['drain', { measures: 'how fast an outbox is emptied into RabbitMQ', load: () => import('./drain.js') }],
]);

const name = process.argv[2];
const bench = name === undefined ? undefined : benches.get(name);

if (bench !== undefined) {
  await bench.load();
} else {
  if (name !== undefined) {
    console.error(`There is no bench "${name}".`);
    process.exitCode = 1;
  }
  console.log(benches.size === 0 ? 'No benches yet.' : 'Benches, run one with `npm run bench -- <name>`:');
  for (const [known, { measures }] of benches) console.log(`  ${known}  ${measures}`);
}
