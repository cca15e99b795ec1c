import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** A bench: what it measures, and the module that runs when it is loaded. */
interface Bench {
  readonly measures: string;
  readonly load: () => Promise<unknown>;
  /** Not among those that run without a name. */
  readonly byNameOnly?: boolean;
}

/** By the name to pass to `npm run bench -- <name>`, in the order in which all of them run. */
const benches = {
  enqueue: { measures: 'what the outbox costs the transaction that uses it', load: () => import('./enqueue.js') },
  'enqueue-bulk': { measures: 'the same, 1,000 messages a call', load: () => import('./enqueue-bulk.js') },
  drain: { measures: 'how fast an outbox is emptied into RabbitMQ', load: () => import('./drain.js') },
  'drain-memory': { measures: 'the same into the in-process transport', load: () => import('./drain-memory.js') },
  'drain-kafka': { measures: 'the same into Kafka', load: () => import('./drain-kafka.js') },
  ordered: { measures: 'what strict order costs', load: () => import('./ordered.js') },
  handle: { measures: 'from the inbox through a handler', load: () => import('./handle.js') },
  latency: { measures: 'from the commit to a consumer of the queue', load: () => import('./latency.js') },
  idle: { measures: 'what it costs while there is nothing to do', load: () => import('./idle.js') },
  'growth-drain': {
    measures: 'how fast an outbox drains beside a million rows that stay',
    load: () => import('./growth-drain.js'),
  },
  scale: { measures: 'one, two and four publisher processes', load: () => import('./scale.js') },
  memory: { measures: 'resident memory over a million messages', load: () => import('./memory.js') },
  cost: { measures: 'what Postgres writes for each message, step by step', load: () => import('./cost.js') },
  growth: {
    measures: 'what claims, status and sentinel cost beside millions of rows that wait; ten minutes, 16 GB of disk',
    load: () => import('./growth.js'),
    byNameOnly: true,
  },
} satisfies Readonly<Record<string, Bench>>;

const known: ReadonlyMap<string, Bench> = new Map(Object.entries(benches));
const name = process.argv[2];
const bench = name === undefined ? undefined : known.get(name);
if (name === undefined) await runAll();
else if (bench !== undefined) await bench.load();
else {
  console.error(`There is no bench "${name}". There are:`);
  for (const [one, { measures }] of known) console.error(`  ${one}  ${measures}`);
  process.exitCode = 1;
}

/** One after the other, each in a process of its own, so that none inherits what another left behind. */
async function runAll(): Promise<void> {
  const begun = performance.now();
  const minutesSince = (since: number): string => ((performance.now() - since) / 60_000).toFixed(1);
  const failed: string[] = [];
  for (const [one, { measures, byNameOnly = false }] of known) {
    if (byNameOnly) continue;
    const oneBegun = performance.now();
    console.log(`\n── ${one}: ${measures}`);
    const child = spawn(process.execPath, [fileURLToPath(import.meta.url), one], { stdio: 'inherit' });
    const [code] = (await once(child, 'exit')) as [number | null];
    if (code !== 0) failed.push(one);
    console.log(`${one} took ${minutesSince(oneBegun)} minutes`);
  }
  console.log(`\nAll took ${minutesSince(begun)} minutes.${failed.length > 0 ? ` Failed: ${failed.join(', ')}.` : ''}`);
  if (failed.length > 0) process.exitCode = 1;
}
