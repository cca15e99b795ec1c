import { fileURLToPath } from 'node:url';

import { runProgram } from '@whizbang/test/fixtures';

import { atLeast, exactly } from './goals.js';
import type { HandleTask, HandleWay } from './handle-load.process.js';
import { fillInbox } from './inbox-fill.js';
import { ratioOf } from './percentiles.js';
import { emptyRates, rateBar, rateRow, troublesOf } from './rates.js';
import { report } from './report.js';
import { inRounds } from './rounds.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// From the inbox through a handler that inserts one row in its transaction, beside the transaction alone.
const count = sizeOf('MESSAGES', 10_000);
const repeats = repeatsOf();
const concurrency = 8;
const batchCount = count * 2;
const ways = ['single', 'batch', 'bare'] as const;

await using services = new BenchServices(peersPostgres);
const database = await services.database();
const pool = services.pool(database, 2);
await pool.query(
  'create table handled (id bigint generated always as identity primary key, sequence integer, order_key text)',
);
const rates = {
  single: emptyRates('Whizbang, handle'),
  batch: emptyRates('Whizbang, handleBatch (100)'),
  bare: emptyRates('bare BEGIN; INSERT; DELETE; COMMIT'),
};
await inRounds(repeats, ways, async (way, round) => {
  const messages = way === 'batch' ? batchCount : count;
  await fill(messages);
  rates[way].perSecond.push(await run({ way, database, count: messages, concurrency }));
  const { rows } = await pool.query<{ handled: number; distinct: number }>(
    'select count(*)::integer as handled, count(distinct sequence)::integer as distinct from handled',
  );
  const { handled = 0, distinct = 0 } = rows[0] ?? {};
  rates[way].trouble.push({ lost: messages - distinct, doubled: handled - distinct, outOfOrder: 0 });
  console.log(`round ${round + 1}: ${rates[way].name}: ${Math.round(rates[way].perSecond.at(-1) ?? 0)}/s`);
});
const wrong = [...rates.single.trouble, ...rates.batch.trouble].reduce((sum, one) => sum + one.lost + one.doubled, 0);
await report({
  name: 'handle',
  measures: `${count} messages of 1 KB in the inbox → a handler that inserts one row in its transaction; ${concurrency} at a time`,
  rows: ways.map((way) => rateRow(rates[way].name, rates[way])),
  goals: [
    atLeast('handle: of the bare transaction', ratioOf(rates.single.perSecond, rates.bare.perSecond), 0.8),
    atLeast('handleBatch: × the bare transaction', ratioOf(rates.batch.perSecond, rates.bare.perSecond), 3),
    exactly('messages handled twice or not at all', wrong, 0),
  ],
  settings: { repeats, messages: count, 'messages, handleBatch': batchCount, concurrency, streams: 1000 },
  versions: services.versions,
  remarks: troublesOf(Object.values(rates)),
  chart: {
    title: 'handle: inbox → handler with one row',
    unit: 'messages/s',
    bars: ways.map((way) => rateBar(rates[way].name, rates[way], way !== 'bare')),
  },
});

/** The inbox as the receiver leaves it. */
async function fill(messages: number): Promise<void> {
  await pool.query('truncate handled, whizbang.wh_inbox, whizbang.wh_message_deduplication, whizbang.wh_doorbells');
  await fillInbox(pool, messages);
  await pool.query('vacuum (analyze) whizbang.wh_inbox');
  await pool.query('checkpoint');
}

async function run(task: HandleTask & { readonly way: HandleWay }): Promise<number> {
  const file = fileURLToPath(new URL('./handle-load.process.js', import.meta.url));
  await using load = runProgram(file, { BENCH_TASK: JSON.stringify(task) });
  const said = await load.waitForMessage(({ perSecond }) => perSecond !== undefined, {
    message: 'an empty inbox',
    timeoutMs: 180_000,
  });
  return Number(said['perSecond']);
}
