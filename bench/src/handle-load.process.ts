// Works through an inbox, or does by hand what a handler's transaction asks of Postgres, and says how long it took.
import { createWhizbang } from '@whizbang/core';
import pg from 'pg';

import { OrderPlaced } from './order-placed.js';

export type HandleWay = 'single' | 'batch' | 'bare';

export interface HandleTask {
  readonly way: HandleWay;
  readonly database: string;
  readonly count: number;
  readonly concurrency: number;
}

process.setSourceMapsEnabled(false);
const { way, database, count, concurrency } = JSON.parse(process.env['BENCH_TASK'] ?? '{}') as HandleTask;
const insert = 'insert into handled (sequence, order_key) values ($1, $2)';
let through = 0;
let first: { at: number; count: number } | undefined;
let finish = (): void => undefined;
const finished = new Promise<void>((resolve) => {
  finish = resolve;
});
const advance = (more: number): void => {
  through += more;
  first ??= { at: performance.now(), count: through };
  if (through === count) finish();
};

await (way === 'bare' ? bare() : handle());
const seconds = (performance.now() - (first?.at ?? 0)) / 1000;
process.stdout.write(`${JSON.stringify({ perSecond: (count - (first?.count ?? 0)) / seconds })}\n`);
process.exit(0);

async function handle(): Promise<void> {
  const service = await createWhizbang({
    service: 'shipping',
    database,
    broker: 'memory:',
    dispatcher: { concurrency },
    publisher: { enabled: false },
  });
  if (way === 'single') {
    service.handle(OrderPlaced, async ({ sequence, order }, { tx }) => {
      await tx.query(insert, [sequence, order]);
    });
  } else {
    service.handleBatch(OrderPlaced, async (messages) => {
      const [one] = messages;
      await one?.context.tx.query(
        'insert into handled (sequence, order_key) select * from unnest($1::integer[], $2::text[])',
        [messages.map(({ payload }) => payload.sequence), messages.map(({ payload }) => payload.order)],
      );
    });
  }
  await service.start();
  let counted = 0;
  const counting = setInterval(() => {
    const { handled } = service.counters;
    if (handled > counted) advance(handled - counted);
    counted = handled;
  }, 2);
  await finished;
  clearInterval(counting);
  await service.stop();
}

/** The same rows, known beforehand. */
async function bare(): Promise<void> {
  const pool = new pg.Pool({ connectionString: database, max: concurrency });
  const { rows } = await pool.query<{ id: string; sequence: number; order: string }>(
    `select message_id as id, (event_data ->> 'sequence')::integer as sequence, event_data ->> 'order' as order
     from whizbang.wh_inbox order by sequence`,
  );
  const lane = async (): Promise<void> => {
    const client = await pool.connect();
    for (let row = rows.pop(); row !== undefined; row = rows.pop()) {
      await client.query('begin');
      await client.query({ name: 'insert', text: insert, values: [row.sequence, row.order] });
      await client.query({
        name: 'delete',
        text: 'delete from whizbang.wh_inbox where message_id = $1',
        values: [row.id],
      });
      await client.query('commit');
      advance(1);
    }
    client.release();
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
}
