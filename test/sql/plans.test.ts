import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { type PostgresServer, startPostgres, waitFor } from '../fixtures/index.js';
import { WorkTable, inTransaction, workTables } from './work-table.js';
import { migrate } from '@whizbang/core';

const me = '0190aaaa-0000-7000-8000-000000000001';
const other = '0190aaaa-0000-7000-8000-000000000002';

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly PlanNode[];
}

/** Plans of the statements inside functions too, as the server explains them while it runs them. */
class ExplainingClient {
  readonly #client: pg.Client;
  #plans: { text: string; root: PlanNode }[] = [];

  private constructor(client: pg.Client) {
    this.#client = client;
    client.on('error', () => undefined);
    client.on('notice', ({ message = '' }) => {
      const json = message.slice(message.indexOf('{'));
      const { 'Query Text': text, Plan: root } = JSON.parse(json) as { 'Query Text': string; Plan: PlanNode };
      this.#plans.push({ text, root });
    });
  }

  static async connect(url: string): Promise<ExplainingClient> {
    const client = new pg.Client({ connectionString: url });
    const explaining = new ExplainingClient(client);
    await client.connect();
    await client.query(`load 'auto_explain'`);
    for (const setting of [
      'client_min_messages = log',
      'auto_explain.log_min_duration = 0',
      'auto_explain.log_nested_statements = on',
      'auto_explain.log_analyze = on',
      'auto_explain.log_buffers = on',
      'auto_explain.log_timing = off',
      'auto_explain.log_format = json',
    ]) {
      await client.query(`set ${setting}`);
    }
    explaining.#plans = [];
    return explaining;
  }

  get client(): pg.Client {
    return this.#client;
  }

  async plansOf(work: (client: pg.Client) => Promise<unknown>) {
    this.#plans = [];
    await work(this.#client);
    return this.#plans.splice(0);
  }

  async end(): Promise<void> {
    await this.#client.end();
  }
}

const nodesOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];
const buffersOf = (plans: readonly { root: PlanNode }[]) =>
  Math.max(...plans.map(({ root }) => root['Shared Hit Blocks'] + root['Shared Read Blocks']));

// Narrow rows, so that a table of many is there in seconds; PLAN_ROWS=1000000 shows that the numbers stay the same.
const size = Number(process.env['PLAN_ROWS'] ?? 200_000);
const batch = 500;

let server: PostgresServer;
let pool: pg.Pool;
let explaining: ExplainingClient;
beforeAll(async () => {
  server = await startPostgres({
    private: true,
    settings: { fsync: 'off', synchronous_commit: 'off', max_wal_size: '4GB', autovacuum: 'off' },
  });
  const { url } = await server.createDatabase();
  pool = new pg.Pool({ connectionString: url, max: 4 });
  pool.on('error', () => undefined);
  await migrate({ database: pool });
  explaining = await ExplainingClient.connect(url);
});
afterAll(async () => {
  await explaining?.end();
  await pool?.end();
  await server?.stop();
});

type Statistics = 'its own statistics' | 'the statistics of an empty table';

/** So many rows that wait, so many that are scheduled for later, so many that are done and kept. */
async function fill(
  table: WorkTable,
  [waiting, scheduled, retained]: readonly [number, number, number],
  statistics: Statistics = 'its own statistics',
) {
  if (statistics === 'the statistics of an empty table') {
    // As a burst finds them: what was there before has been handled, and vacuumed away.
    await table.store(Array.from({ length: 1_000 }, (_, index) => `a${index}`));
    await pool.query(`delete from ${table.table}`);
    await pool.query(`vacuum (analyze, truncate false) ${table.table}`);
  }
  const columns = table.name === 'inbox' ? 'handler_name, message_type' : 'message_type, destination';
  await pool.query(`
    insert into ${table.table} (message_id, ${columns}, event_data, stream_id, scheduled_for, processed_at)
    select gen_random_uuid(), 'h', 't', '{}', ('00000000-0000-4000-8000-' || lpad((n % 5000)::text, 12, '0'))::uuid,
           case when n > ${waiting} and n <= ${waiting + scheduled} then now() + n * interval '1 second' end,
           case when n > ${waiting + scheduled} then now() end
    from generate_series(1, ${waiting + scheduled + retained}) n`);
  if (statistics === 'its own statistics') {
    await pool.query(`vacuum analyze ${table.table}`);
  }
}

describe.each(workTables)('on a large %s', (name) => {
  const all = <Value>(count: number, value: Value) => Array.from({ length: count }, () => value);

  const exchange = (schema: string, failed: readonly string[] = []) => {
    const completed: string[] = [];
    const failures = [
      JSON.stringify(
        failed.map((messageId) => ({ messageId, attempt: 1, completedStatus: 1, error: 'broke', reason: 2 })),
      ),
      JSON.stringify({ generation: 'test' }),
    ];
    const claim = [batch, 1e9, 60, false, [], [], []];
    const values =
      name === 'outbox'
        ? [me, completed, all(completed.length, 1), false, ...failures, [], [], ...claim]
        : [me, ...failures, [], [], [], [], ...claim];
    const places = values.map((_, index) => `$${index + 1}`).join(', ');
    return (client: pg.Client) => client.query(`select * from ${schema}.exchange_${name}_work(${places})`, values);
  };

  /** What a plan does that it should not, in words. */
  const faultsOf = (plans: readonly { text: string; root: PlanNode }[], mostRows: number): string[] => {
    const nodes = plans.flatMap(({ text, root }) => nodesOf(root).map((node) => ({ text, node })));
    return nodes.flatMap(({ text, node }) => {
      const type = node['Node Type'];
      const onTable = node['Relation Name'] === `wh_${name}`;
      const rows = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
      const isWrong = onTable
        ? /Seq Scan|Bitmap/.test(type) || rows > mostRows
        : type.includes('Sort') && rows > mostRows;
      return isWrong ? [`${type} of ${rows} rows in ${text.slice(0, 200)}`] : [];
    });
  };

  test.for([
    ['its own statistics', 'large'],
    ['the statistics of an empty table', 'burst'],
  ] as const)(
    'with %s, claims, settlements, exchanges and statistics walk indexes, sort a batch at the most, and read little',
    async ([statistics, schemaName], { annotate }) => {
      const schema = `${schemaName}_${name}`;
      await migrate({ database: pool, schema });
      const table = new WorkTable(name, pool, `${schema}.`);
      await fill(table, [size * 0.6, size * 0.2, size * 0.2], statistics);
      const buffers: Record<string, number> = {};
      const look = async (what: string, most: number, work: (client: pg.Client) => Promise<unknown>) => {
        const plans = await explaining.plansOf(work);
        expect(plans.length).toBeGreaterThan(0);
        // Two batches of candidates, each looked at twice; statistics count up to 10,000.
        expect(faultsOf(plans, what === 'statistics' ? 10_000 : 4 * batch)).toEqual([]);
        buffers[what] = buffersOf(plans);
        expect(`${what}: ${buffers[what] < most}`).toBe(`${what}: true`);
      };
      let rows: Awaited<ReturnType<WorkTable['claim']>> = [];
      const perRow = 40;
      await look('claim', perRow * batch, async (client) => {
        rows = await table.claim(me, { limit: batch, maxBytes: 1e9, on: client });
      });
      expect(rows).toHaveLength(batch);
      await look('claim of another', perRow * batch, (client) => table.claim(other, { limit: batch, on: client }));
      await look('renew', perRow * batch, (client) => table.renew(me, rows, 60, client));
      await look('complete', perRow * batch, (client) => table.complete(me, rows.slice(0, 200), { on: client }));
      await look('complete and keep', perRow * batch, (client) =>
        table.complete(me, rows.slice(200, 300), { retain: true, on: client }),
      );
      await look('release', perRow * batch, (client) => table.release(me, rows.slice(300, 400), { on: client }));
      await look('fail', perRow * batch, (client) => table.fail(me, rows.slice(400, 430), { on: client }));
      await look('give up', 2 * perRow * batch, (client) =>
        table.fail(me, rows.slice(430, 450), { on: client, permanent: true }),
      );
      await look('purge', perRow * batch, (client) =>
        client.query(`select ${schema}.purge_completed_messages(0, ${batch})`),
      );
      await look(
        'exchange',
        2 * perRow * batch,
        exchange(
          schema,
          rows.slice(450).map((row) => row.messageId),
        ),
      );
      await look('statistics', 12_000, (client) => client.query(`select * from ${schema}.backlog_statistics()`));
      await look('stranded', 1_000, (client) => client.query(`select ${schema}.unblock_stranded_${name}_streams()`));
      await annotate(`Buffers of the largest statement, ${size} rows: ${JSON.stringify(buffers)}`);
    },
  );

  test('an exchange that finds nothing does not read what is scheduled or done', async () => {
    const schema = `idle_${name}`;
    await migrate({ database: pool, schema });
    await fill(new WorkTable(name, pool, `${schema}.`), [0, size * 0.5, size * 0.1]);
    // The first call of a session reads the catalog, too; and one of eight claims looks at everything at once.
    for (let call = 0; call < 100; call += 1) await explaining.plansOf(exchange(schema));
    const plans = await explaining.plansOf(exchange(schema));
    expect(faultsOf(plans, batch)).toEqual([]);
    expect(buffersOf(plans)).toBeLessThan(100);
  });
});

describe.each(workTables)('claims of the %s touch no index', (name) => {
  test.each([
    ['narrow', '{}'],
    ['of 300 bytes', JSON.stringify({ text: 'x'.repeat(290) })],
    ['of 1,000 bytes', JSON.stringify({ text: 'x'.repeat(990) })],
    ['of 6,000 bytes', JSON.stringify({ text: 'x'.repeat(5_990) })],
  ])('for rows %s', async (_, body) => {
    const schema = `hot_${name}_${body.length}`;
    await migrate({ database: pool, schema });
    const table = new WorkTable(name, pool, `${schema}.`);
    await table.store(
      Array.from({ length: 2_000 }, (__, index) => `${String.fromCodePoint(97 + (index % 20))}${index}`),
      { body },
    );
    await inTransaction(pool, async (client) => {
      for (let claim = 0; claim < 4; claim += 1) {
        expect(await table.claim(me, { limit: batch, maxBytes: 1e9, on: client })).toHaveLength(batch);
      }
    });
    // Statistics of a session reach the view a moment after its commit.
    const { hot } = await waitFor(
      async () => {
        const { rows } = await pool.query<{ updated: string; hot: string }>(
          'select n_tup_upd as updated, n_tup_hot_upd as hot from pg_stat_user_tables where relid = $1::regclass',
          [table.table],
        );
        return rows[0]?.updated === '2000' ? rows[0] : undefined;
      },
      { message: 'the statistics of 2,000 updates' },
    );
    expect(hot).toBe('2000');
  });
});
