import { randomUUID } from 'node:crypto';

import { type Logger, type Whizbang, type WhizbangOptions, createWhizbang, migrate } from '@whizbang/core';
import pg from 'pg';
import { onTestFinished } from 'vitest';

import { testDatabase } from '../fixtures/test-services.js';

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export class RecordingLogger implements Logger {
  readonly lines: LogLine[] = [];
  debug = (fields: object, message: string) => this.#add('debug', fields, message);
  info = (fields: object, message: string) => this.#add('info', fields, message);
  warn = (fields: object, message: string) => this.#add('warn', fields, message);
  error = (fields: object, message: string) => this.#add('error', fields, message);

  /** What was warned of, by a part of its sentence. */
  warnings(part: string): LogLine[] {
    return this.lines.filter((line) => line.level === 'warn' && line.message.includes(part));
  }

  count(part: string): number {
    return this.lines.filter((line) => line.message.includes(part)).length;
  }

  #add(level: LogLine['level'], fields: object, message: string): void {
    this.lines.push({ level, fields: { ...fields }, message });
  }
}

export interface OperatorsDatabase {
  readonly url: string;
  readonly pool: pg.Pool;
  query<Row>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Empties every table of Whizbang's, between tests. */
  empty(): Promise<void>;
  close(): Promise<void>;
}

/** A database with the schema in it. */
export async function operatorsDatabase(): Promise<OperatorsDatabase> {
  const { url } = await testDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  // The database is dropped at the end, which ends sessions that are still in it.
  pool.on('error', () => undefined);
  await migrate({ database: pool });
  return {
    url,
    pool,
    query: async <Row>(text: string, values: readonly unknown[] = []) =>
      (await pool.query(text, [...values])).rows as Row[],
    empty: async () => {
      await pool.query(
        `truncate whizbang.wh_outbox, whizbang.wh_inbox, whizbang.wh_dead_letters, whizbang.wh_duties,
           whizbang.wh_service_instances, whizbang.wh_doorbells, whizbang.wh_message_deduplication`,
      );
    },
    close: () => pool.end(),
  };
}

/** A service on that database and a broker of its own, stopped at the end of the test. Not started. */
export async function service(url: string, options: Partial<WhizbangOptions> = {}): Promise<Whizbang> {
  const whizbang = await createWhizbang({
    service: 'desk',
    database: url,
    broker: `memory:${randomUUID()}`,
    ...options,
  });
  onTestFinished(async () => {
    await whizbang.stop();
  });
  return whizbang;
}

let sequence = 0;

export type Row = Readonly<Record<string, unknown>>;

/** Inserts rows as they are given, with what every row needs filled in. Returns their ids. */
export async function insertRows(
  { pool }: OperatorsDatabase,
  table: 'wh_outbox' | 'wh_inbox' | 'wh_dead_letters',
  rows: readonly Row[],
): Promise<string[]> {
  const defaults: Record<typeof table, () => Row> = {
    wh_outbox: () => ({
      message_id: randomUUID(),
      destination: 'orders',
      message_type: 'order-placed',
      event_data: '{}',
    }),
    wh_inbox: () => ({
      message_id: randomUUID(),
      handler_name: 'order-placed',
      destination: 'orders',
      message_type: 'order-placed',
      event_data: '{}',
    }),
    wh_dead_letters: () => ({
      dead_letter_id: randomUUID(),
      source_table: 'wh_outbox',
      source_id: randomUUID(),
      message_type: 'order-placed',
      destination: 'orders',
      envelope: '{"order":1}',
      failure_reason: 5,
      attempts_when_dlq: 10,
      generation: 'build-1',
      source_sequence: (sequence += 1),
    }),
  };
  const ids: string[] = [];
  for (const row of rows) {
    const whole = { ...defaults[table](), ...row };
    const names = Object.keys(whole);
    const { rows: inserted } = await pool.query<Record<string, string>>(
      `insert into whizbang.${table} (${names.join(', ')}) overriding system value
       values (${names.map((_, index) => `$${index + 1}`).join(', ')}) returning *`,
      Object.values(whole),
    );
    ids.push(inserted[0]?.[table === 'wh_dead_letters' ? 'dead_letter_id' : 'message_id'] ?? '');
  }
  return ids;
}

export const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);
