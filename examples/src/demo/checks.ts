import pg from 'pg';

import type { Killed } from './second-worker.js';

export interface Expectations {
  readonly database: string;
  readonly run: string;
  /** Order lines committed by the producers, by their own count. */
  readonly lines: number;
  /** Transactions that were rolled back. */
  readonly rolledBack: readonly string[];
  readonly killed: Killed;
  /** Messages sent a second time on purpose, and how many were recognised. */
  readonly repeated: number;
  readonly deduplicated: number;
}

export interface Check {
  readonly says: string;
  /** What was found instead; undefined when it holds. */
  readonly problem: string | undefined;
}

/**
 * Looks at the tables from outside, on a connection of its own, with nothing that Whizbang says about itself but the count
 * of duplicates.
 */
export async function checkEverything(expected: Expectations): Promise<Check[]> {
  const client = new pg.Client({ connectionString: expected.database, application_name: 'whizbang-demo-check' });
  await client.connect();
  try {
    return await look(client, expected);
  } finally {
    await client.end();
  }
}

async function look(client: pg.Client, expected: Expectations): Promise<Check[]> {
  const { run, lines, rolledBack, killed, repeated, deduplicated } = expected;
  const number = async (sql: string, values: readonly unknown[] = []) => {
    const { rows } = await client.query<{ number: string }>(`select (${sql})::bigint as number`, [...values]);
    return Number(rows[0]?.number);
  };
  const none = (says: string, found: Readonly<Record<string, number>>): Check => {
    const wrong = Object.entries(found).filter(([, count]) => count !== 0);
    return {
      says,
      problem: wrong.length === 0 ? undefined : wrong.map(([what, count]) => `${what}: ${count}`).join(', '),
    };
  };

  return [
    none(`each of ${lines} committed order lines became one parcel, and each parcel one confirmation`, {
      'lines in the table beyond or below the count': (await number('select count(*) from orders.order_line')) - lines,
      'lines without a parcel': await number(missing('orders.order_line', 'shipping.parcel')),
      'parcels without a confirmation': await number(missing('shipping.parcel', 'orders.confirmation')),
      'parcels nobody ordered': await number(`${missing('shipping.parcel', 'orders.order_line')} and run = $1`, [run]),
    }),
    none('nothing was handled twice', {
      'parcels too many': await number(surplus('shipping.parcel')),
      'confirmations too many': await number(surplus('orders.confirmation')),
    }),
    none('within each order, lines were handled in the order of their commits', {
      'parcels out of order': await number(swapped('shipping.parcel'), [run]),
      'confirmations out of order': await number(swapped('orders.confirmation'), [run]),
    }),
    none(`nothing of ${rolledBack.length} rolled back transactions was seen`, {
      parcels: await number('select count(*) from shipping.parcel where transaction_id = any ($1::uuid[])', [
        rolledBack,
      ]),
      'order lines': await number('select count(*) from orders.order_line where transaction_id = any ($1::uuid[])', [
        rolledBack,
      ]),
    }),
    none(`what the killed process had in its hands (${killed.held.length}) was handled by the other one`, {
      'not handled by it': await number(
        `select count(*) from unnest($1::uuid[]) as held (message_id)
         where not exists (select from shipping.parcel p where p.message_id = held.message_id and p.worker = 'first')`,
        [killed.held],
      ),
    }),
    none(`${repeated} messages that were sent twice on purpose were recognised`, {
      'not recognised': Math.max(repeated - deduplicated, 0),
    }),
    none('outboxes and inboxes are empty, and nothing is among the dead letters', {
      'orders.wh_outbox': await number('select count(*) from orders.wh_outbox'),
      'orders.wh_inbox': await number('select count(*) from orders.wh_inbox'),
      'orders.wh_dead_letters': await number('select count(*) from orders.wh_dead_letters'),
      'shipping.wh_outbox': await number('select count(*) from shipping.wh_outbox'),
      'shipping.wh_inbox': await number('select count(*) from shipping.wh_inbox'),
      'shipping.wh_dead_letters': await number('select count(*) from shipping.wh_dead_letters'),
    }),
  ];
}

const missing = (from: string, counterpart: string) => `
  select count(*) from ${from} one
  where not exists (select from ${counterpart} other where other.order_id = one.order_id and other.line = one.line)`;

const surplus = (table: string) => `
  select coalesce(sum(times - 1), 0) from (select count(*) as times from ${table} group by order_id, line) one`;

// The database numbers parcels and confirmations as the handlers write them; line by line, the number must grow.
const swapped = (table: string) => `
  select count(*) from (
    select line, lag(line, 1, 0) over (partition by order_id order by handled_no) as before
    from ${table} where run = $1
  ) one
  where line <> before + 1`;
