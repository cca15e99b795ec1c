import type pg from 'pg';

/** What the handlers of a test have done, written in their own transactions. Nothing in it is unique: doing it twice shows. */
const createHandled = `
  create table handled (
    position bigint generated always as identity, message_id uuid not null, stream text not null, number integer not null,
    attempt integer not null, rolled_back boolean not null, handled_at timestamptz not null default clock_timestamp())`;

export const insertHandled =
  'insert into handled (message_id, stream, number, attempt, rolled_back) values ($1, $2, $3, $4, $5)';

/** What there is to say about a ledger: how much was handled, and how much of it wrongly. */
export interface LedgerReport {
  readonly handled: number;
  readonly twice: number;
  readonly outOfOrder: number;
  readonly rolledBack: number;
}

/** The table `handled` of a database, and questions to it. */
export class Ledger {
  readonly #pool: pg.Pool;

  private constructor(pool: pg.Pool) {
    this.#pool = pool;
  }

  static async create(pool: pg.Pool): Promise<Ledger> {
    await pool.query(createHandled);
    return new Ledger(pool);
  }

  async count(): Promise<number> {
    const { rows } = await this.#pool.query<{ count: number }>('select count(*)::integer as count from handled');
    return rows[0]?.count ?? 0;
  }

  /** The numbers of a stream in the order of their handlers. */
  async numbersOf(stream: string): Promise<number[]> {
    const { rows } = await this.#pool.query<{ number: number }>(
      'select number from handled where stream = $1 order by position',
      [stream],
    );
    return rows.map(({ number }) => number);
  }

  /** For streams whose messages are numbered 1, 2, 3, …: handlers of a stream run one at a time, so positions are their order. */
  async report(): Promise<LedgerReport> {
    const { rows } = await this.#pool.query<LedgerReport>(`
      select count(*)::integer as handled,
             (count(*) - count(distinct message_id))::integer as twice,
             (count(*) filter (where number <> place))::integer as "outOfOrder",
             (count(*) filter (where rolled_back))::integer as "rolledBack"
      from (select *, row_number() over (partition by stream order by position) as place from handled) h`);
    const [report] = rows;
    if (report === undefined) throw new Error('an aggregate gave no row');
    return report;
  }
}

/** Rows in the tables of a database's outbox and inbox, whatever their state. */
export async function countRows(pool: pg.Pool): Promise<{ outbox: number; inbox: number; deadLetters: number }> {
  const { rows } = await pool.query<{ outbox: number; inbox: number; deadLetters: number }>(`
    select (select count(*) from whizbang.wh_outbox)::integer as outbox,
           (select count(*) from whizbang.wh_inbox)::integer as inbox,
           (select count(*) from whizbang.wh_dead_letters)::integer as "deadLetters"`);
  return rows[0] ?? { outbox: -1, inbox: -1, deadLetters: -1 };
}
