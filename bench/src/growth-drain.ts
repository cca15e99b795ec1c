import pg from 'pg';

import type { Contender } from './contenders/contender.js';
import { drainRates, enterAll, settingsOf, troubleIn } from './drain-rates.js';
import { atLeast, exactly } from './goals.js';
import { fill, fillRetained, sides } from './growth-side.js';
import { orderPlaced } from './order-placed.js';
import { ratioOf } from './percentiles.js';
import { rateBar, rateRow, troublesOf } from './rates.js';
import { report } from './report.js';
import { BenchServices, peersPostgres } from './services.js';
import { repeatsOf, sizeOf } from './settings.js';

// How fast an outbox drains beside a million rows that do not move, and while somebody's transaction stays open.
const count = sizeOf('MESSAGES', 20_000);
const rowsBeside = sizeOf('ROWS', 1_000_000);
const repeats = repeatsOf();
const quarter = Math.ceil(rowsBeside / 4);

await using services = new BenchServices(peersPostgres);
const keys = ['whizbang', 'whizbang-beside', 'whizbang-open'] as const;
const [outbox] = sides;
if (outbox === undefined) throw new Error('There is no outbox.');
const entered = await enterAll(services, keys, () => count);
const besides = entered['whizbang-beside'].pool;
const body = JSON.stringify(orderPlaced(0));
await fill(besides, outbox, { waiting: quarter, dead: quarter }, body);
await fillRetained(besides, quarter, body);
await besides.query('vacuum analyze');
console.log('filled');
const entries = {
  ...entered,
  'whizbang-open': {
    ...entered['whizbang-open'],
    contender: withOpenTransaction(entered['whizbang-open'].contender, entered['whizbang-open'].database),
  },
};
const rates = await drainRates(entries, keys, repeats, () => ({ sink: 'memory' }));
const ratio = (key: (typeof keys)[number]): number => ratioOf(rates[key].perSecond, rates.whizbang.perSecond);
const names = {
  whizbang: 'empty table',
  'whizbang-beside': `beside ${rowsBeside} rows`,
  'whizbang-open': 'with a transaction open',
};
await report({
  name: 'growth-drain',
  measures: `${count} messages of 1 KB → in-process transport, beside ${quarter} rows each that are retained, scheduled, blocked or dead, and with a transaction left open for the whole run`,
  rows: keys.map((key) => rateRow(names[key], rates[key])),
  goals: [
    atLeast(`beside ${rowsBeside} rows: of an empty table's rate`, ratio('whizbang-beside'), 0.95),
    atLeast("with an open transaction: of an empty table's rate", ratio('whizbang-open'), 0.8),
    exactly(
      'messages lost, doubled or out of order',
      keys.reduce((sum, key) => sum + troubleIn(rates[key]), 0),
      0,
    ),
  ],
  settings: { repeats, rowsBeside, ...settingsOf(entries) },
  versions: services.versions,
  remarks: troublesOf(Object.values(rates)),
  chart: {
    title: 'growth: drain beside what stays',
    unit: 'messages/s',
    bars: keys.map((key) => rateBar(names[key], rates[key], true)),
  },
});

/** From the emptying of the tables to the end of the run: nothing that is deleted in between can be vacuumed. */
function withOpenTransaction(contender: Contender, database: string): Contender {
  let open: pg.Client | undefined;
  return {
    ...contender,
    name: 'Whizbang, with a transaction open',
    reset: async (pool) => {
      await contender.reset(pool);
      open = new pg.Client({ connectionString: database });
      await open.connect();
      await open.query('begin isolation level repeatable read');
      await open.query('select 1');
    },
    leave: async () => {
      await open?.query('commit');
      await open?.end();
    },
  };
}
