import type pg from 'pg';
import { failureReasonName } from '../contract/message-failure-reason.js';
import type { SchemaName } from '../database/schema-name.js';
import type { BreakerState } from '../failure/breakers.js';

/** How one table stands. Counts stop at 5,000, so that asking costs the same whatever waits. */
export interface TableStatus {
  /** Due and waiting to be claimed, or leased. */
  readonly pending: number;
  readonly oldestAgeMs: number;
  readonly leased: number;
  /** Waiting for a time: retries and delayed messages. */
  readonly scheduled: number;
  /** Streams with messages that wait behind a head. */
  readonly blockedStreams: number;
  /** At `infinity`. */
  readonly parked: number;
}

export interface ServiceStatus {
  readonly outbox: TableStatus;
  readonly inbox: TableStatus;
  /** Unrecovered dead letters by reason; each stops at 5,000. */
  readonly deadByReason: Readonly<Record<string, number>>;
  readonly instancesAlive: number;
  /** Whether notifications arrive in this process; false: it polls. */
  readonly wakeupsHealthy: boolean;
  readonly brokerReady: boolean;
  /** Whether any instance does this for all; false for longer than a minute: nobody does it, or nobody can. */
  readonly duties: { readonly maintenance: boolean; readonly recovery: boolean };
  /** This process does one of them. */
  readonly elected: boolean;
  readonly breakers: { readonly outbox: readonly BreakerState[]; readonly inbox: readonly BreakerState[] };
}

type FromTables = Pick<ServiceStatus, 'outbox' | 'inbox' | 'deadByReason' | 'instancesAlive' | 'duties'>;

export async function readStatus(pool: pg.Pool, schema: SchemaName): Promise<FromTables> {
  const { rows } = await pool.query<{ category: string; name: string; value: number }>(
    `select category, name, value from ${schema.prefix}service_status()`,
  );
  const value = (category: string, name: string) =>
    rows.find((row) => row.category === category && row.name === name)?.value ?? 0;
  const table = (category: string): TableStatus => ({
    pending: value(category, 'pending'),
    oldestAgeMs: value(category, 'oldest_age_ms'),
    leased: value(category, 'leased'),
    scheduled: value(category, 'scheduled'),
    blockedStreams: value(category, 'blocked_streams'),
    parked: value(category, 'parked'),
  });
  const dead = rows.filter((row) => row.category === 'dead');
  return {
    outbox: table('outbox'),
    inbox: table('inbox'),
    deadByReason: Object.fromEntries(dead.map((row) => [failureReasonName(Number(row.name)), row.value])),
    instancesAlive: value('instances', 'alive'),
    duties: { maintenance: value('duties', 'maintenance') > 0, recovery: value('duties', 'recovery') > 0 },
  };
}
