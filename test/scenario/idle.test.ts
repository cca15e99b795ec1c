import { setTimeout as delay } from 'node:timers/promises';

import { createWhizbang, migrate } from '@whizbang/core';
import { createTransport } from '@whizbang/transport-rabbitmq';
import { expect, test } from 'vitest';

import { type Program, startPostgres, waitFor } from '../fixtures/index.js';
import { testBroker } from '../fixtures/test-services.js';
import { Ledger } from './ledger.js';
import { OrderChanged } from './orders.js';
import { startService } from './service-program.js';
import { atEnd, testPool, untilAsleep } from './test-service.js';

const seconds = Number(process.env['WHIZBANG_SCENARIO_IDLE_SECONDS'] ?? 15);

test(
  `idle for ${seconds} s: next to no queries, next to no processor time, and awake at once afterwards`,
  async () => {
    // Not the server of all tests: others' queries are no business of this one.
    const settings = { shared_preload_libraries: 'pg_stat_statements', fsync: 'off' };
    const postgres = await startPostgres({ private: true, settings });
    atEnd(() => postgres.stop());
    const broker = await testBroker();
    const ordersDatabase = await postgres.createDatabase();
    const shippingDatabase = await postgres.createDatabase();
    const observer = testPool(postgres.url);
    const ordersPool = testPool(ordersDatabase.url);
    const shipping = testPool(shippingDatabase.url);
    await observer.query('create extension pg_stat_statements');
    await migrate({ database: ordersDatabase.url });
    await migrate({ database: shipping });
    const ledger = await Ledger.create(shipping);

    const programs = await Promise.all([
      startService({ options: { service: 'orders', database: ordersDatabase.url, broker: broker.url } }),
      startService({
        options: { service: 'shipping', database: shippingDatabase.url, broker: broker.url },
        handler: {},
      }),
    ]);
    await using orders = await createWhizbang({
      service: 'orders',
      database: ordersDatabase.url,
      broker: createTransport(broker.url),
    });
    // The publisher of orders and the dispatcher of shipping have had something to do; so has nobody else.
    const { rows: published } = await ordersPool.query<{ now: Date }>('select now()');
    await orders.publishNow(OrderChanged, { order: 'warm', number: 1 });
    await waitFor(async () => (await ledger.count()) === 1, { message: 'the first message', timeoutMs: 30_000 });
    await untilAsleep(ordersPool, 1, published[0]?.now);
    await untilAsleep(shipping, 2);

    const before = await Promise.all(programs.map((program) => processorMs(program, 1)));
    await observer.query('select pg_stat_statements_reset()');
    await delay(seconds * 1000);
    const { rows } = await observer.query<{ calls: number; query: string }>(
      `select s.calls::integer as calls, s.query from pg_stat_statements s join pg_database d on d.oid = s.dbid
       where d.datname = any ($1) order by 1 desc`,
      [[ordersDatabase.name, shippingDatabase.name]],
    );
    const after = await Promise.all(programs.map((program) => processorMs(program, 2)));

    const calls = rows.reduce((sum, row) => sum + row.calls, 0);
    expect(calls / seconds, `queries: ${JSON.stringify(rows)}`).toBeLessThan(1);
    for (const [index, program] of programs.entries()) {
      const share = ((after[index] ?? Infinity) - (before[index] ?? 0)) / (seconds * 1000);
      // The goal is 1 %. A machine that others use as well slows down what there is to do.
      expect(share, `share of a core of ${program.pid}`).toBeLessThan(seconds >= 60 ? 0.01 : 0.03);
    }

    await orders.publishNow(OrderChanged, { order: 'warm', number: 2 });
    await waitFor(async () => (await ledger.count()) === 2, { message: 'the message after the rest', timeoutMs: 5000 });
  },
  120_000 + seconds * 1000,
);

/** Processor time that a program has used so far, as it says for the `count`-th time. */
async function processorMs(program: Program, count: number): Promise<number> {
  const reports = () => program.messages.flatMap(({ report }) => (report === undefined ? [] : [report as Report]));
  program.kill('SIGUSR2');
  const report = await waitFor(() => reports()[count - 1], { message: 'the report of a program' });
  return (report.cpu.user + report.cpu.system) / 1000;
}

interface Report {
  readonly cpu: NodeJS.CpuUsage;
}
