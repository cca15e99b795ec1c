import type pg from 'pg';

// Written by triggers in the very transactions that change the rows: what a crash undoes is undone here as well.
const auditSql = `
  create table audit (
    position bigint generated always as identity, work_table text not null, message_id uuid not null, operation text not null,
    attempts integer not null, stolen boolean not null, at timestamptz not null default clock_timestamp());
  create function audit_row() returns trigger language plpgsql as $$
  begin
    if tg_op = 'INSERT' then
      insert into public.audit (work_table, message_id, operation, attempts, stolen)
      values (tg_table_name, new.message_id, 'stored', new.attempts, false);
    elsif tg_op = 'DELETE' then
      insert into public.audit (work_table, message_id, operation, attempts, stolen)
      values (tg_table_name, old.message_id, 'gone', old.attempts, false);
    elsif new.processed_at is not null and old.processed_at is null then
      insert into public.audit (work_table, message_id, operation, attempts, stolen)
      values (tg_table_name, old.message_id, 'gone', new.attempts, false);
    elsif new.attempts > old.attempts then
      insert into public.audit (work_table, message_id, operation, attempts, stolen)
      values (tg_table_name, new.message_id, 'claimed', new.attempts,
              old.instance_id is not null and old.lease_expiry > clock_timestamp());
    elsif new.attempts < old.attempts then
      insert into public.audit (work_table, message_id, operation, attempts, stolen)
      values (tg_table_name, new.message_id, 'released', new.attempts, false);
    end if;
    return null;
  end $$;
  create trigger audit after insert or update or delete on whizbang.wh_outbox for each row execute function audit_row();
  create trigger audit after insert or update or delete on whizbang.wh_inbox for each row execute function audit_row();`;

/** What is kept of every row of outbox and inbox, without asking the library. */
export async function installAudit(pool: pg.Pool): Promise<void> {
  await pool.query(auditSql);
}

/** The life of a row, from when it was stored until it went, for good. Times are milliseconds of the wall clock. */
export interface RowLife {
  readonly messageId: string;
  readonly from: number;
  /** Null: it is still there. */
  readonly to: number | null;
  /** When it went. */
  readonly attempts: number;
}

export async function readLives(pool: pg.Pool, workTable: 'wh_outbox' | 'wh_inbox'): Promise<Map<string, RowLife>> {
  const { rows } = await pool.query<{ id: string; begun: number; ended: number | null; attempts: number }>(
    `select message_id as id, extract(epoch from min(at)) * 1000 as begun,
            extract(epoch from max(at) filter (where operation = 'gone')) * 1000 as ended,
            coalesce((array_agg(attempts order by position desc) filter (where operation = 'gone'))[1], 0) as attempts
     from audit where work_table = $1 group by message_id`,
    [workTable],
  );
  return new Map(
    rows.map(({ id, begun, ended, attempts }) => [
      id,
      { messageId: id, from: Number(begun), to: ended === null ? null : Number(ended), attempts },
    ]),
  );
}

/** Claims of rows whose lease, somebody's, had not run out. */
export async function readStolen(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ id: string; table: string }>(
    `select message_id as id, work_table as table from audit where stolen limit 20`,
  );
  return rows.map(({ id, table }) => `${table}: ${id} was claimed while it was leased`);
}
