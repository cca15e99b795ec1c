import { randomUUID } from 'node:crypto';

import type pg from 'pg';

/** The outbox or the inbox, through the library's own functions. */
export interface Side {
  readonly name: 'outbox' | 'inbox';
  /** Rows that a worker claims at a time, by default. */
  readonly batch: number;
  readonly store: string;
  readonly complete: string;
  /** The column that has no default, beside those that both tables have. */
  readonly place: string;
}

interface Claimed {
  readonly message_id: string;
  readonly attempts: number;
}

export const sides: readonly Side[] = [
  {
    name: 'outbox',
    batch: 500,
    store: `store_outbox_messages(ids, places, types, bodies, metadata, streams, array_fill(null::timestamptz, array[$1]))`,
    complete: 'complete_outbox_published',
    place: 'destination',
  },
  {
    name: 'inbox',
    batch: 200,
    store: `store_inbox_messages(ids, types, types, places, bodies, metadata, streams)`,
    complete: 'complete_inbox_handled',
    place: 'handler_name',
  },
];

const holder = randomUUID();

/** So many messages of a thousand streams. */
export async function store(pool: pg.Pool, side: Side, count: number, body: string): Promise<void> {
  await pool.query(
    `select whizbang.${side.store}
     from (select array_agg(whizbang.uuid_v7()) as ids, array_agg(md5((n % 1000)::text)::uuid) as streams,
                  array_agg('orders'::text) as places, array_agg('orders.order-placed'::text) as types,
                  array_agg($2::text) as bodies, array_agg('{}'::text) as metadata
           from generate_series(1, $1::integer) n) m`,
    [count, body],
  );
}

export async function claim(pool: pg.Pool, { name }: Side, limit: number): Promise<readonly Claimed[]> {
  const call = `select * from whizbang.claim_orphaned_${name}($1, $2, 10000000, 60)`;
  return (await pool.query<Claimed>(call, [holder, limit])).rows;
}

export async function complete(pool: pg.Pool, side: Side, rows: readonly Claimed[]): Promise<void> {
  await pool.query(`select whizbang.${side.complete}($1, $2, $3)`, [
    holder,
    rows.map((row) => row.message_id),
    rows.map((row) => row.attempts),
  ]);
}

/** What waits, as the library leaves it: behind one failed head, scheduled for next week, dead. */
export async function fill(
  pool: pg.Pool,
  { name, place }: Side,
  { waiting, dead }: { readonly waiting: number; readonly dead: number },
  body: string,
): Promise<void> {
  // Streams of the dead and the scheduled are not those that are claimed: these go on.
  const insert = (count: number, stream: string, values: Readonly<Record<string, string>>, returning = '') =>
    pool.query<{ message_id: string }>(
      `insert into whizbang.wh_${name} (message_id, ${place}, message_type, event_data, body_bytes, stream_id, ${Object.keys(values).join(', ')})
       select whizbang.uuid_v7(), 'orders', 'orders.order-placed', $1::json, octet_length($1::text), ${stream}, ${Object.values(values).join(', ')}
       from generate_series(1, ${count}) n ${returning}`,
      [body],
    );
  const failed = { status: '32769', failure_reason: '2', error: "'the destination broke'" };
  const one = "md5('blocked')::uuid";
  const many = "md5('stream ' || n % 10000)::uuid";
  const { rows: doomed } = await insert(dead, many, { ...failed, attempts: '10' }, 'returning message_id');
  // As many at a time as a busy instance would.
  for (let moved = 0; moved < dead; moved += 500) {
    const messages = doomed
      .slice(moved, moved + 500)
      .map(({ message_id: messageId }) => ({ messageId, reason: 5, lastReason: 2 }));
    await pool.query(`select whizbang.move_to_dead_letters('wh_${name}', null, $1, 'bench')`, [
      JSON.stringify(messages),
    ]);
  }
  // Due again long after the bench: until then claims have marked whatever they met behind it.
  await insert(1, one, { ...failed, attempts: '3', scheduled_for: "now() + interval '1 day'" });
  await insert(waiting, one, { blocked: 'true' });
  await insert(waiting, many, { scheduled_for: "now() + interval '7 days' + n * interval '1 millisecond'" });
}

/** What `retainCompleted` of the publisher keeps. */
export async function fillRetained(pool: pg.Pool, count: number, body: string): Promise<void> {
  await pool.query(
    `insert into whizbang.wh_outbox (message_id, destination, message_type, event_data, body_bytes, stream_id, status, attempts,
                                     published_at, processed_at)
     select whizbang.uuid_v7(), 'orders', 'orders.order-placed', $1::json, octet_length($1::text),
            md5('stream ' || n % 10000)::uuid, 5, 1, now(), now()
     from generate_series(1, $2::integer) n`,
    [body, count],
  );
}
