import { type ObservableResult, metrics } from '@opentelemetry/api';
import type pg from 'pg';
import type { SchemaName } from '../database/schema-name.js';
import { libraryVersion } from '../options/library-version.js';
import { within } from '../runtime/clock.js';

// A collection must not wait for a database that does not answer; it reports no backlog then.
const answerWithinMs = 5_000;

/** How much is waiting; `pending` stops counting at 10,000, so that asking costs the same whatever waits. */
export interface Backlog {
  readonly outbox: { readonly pending: number; readonly oldestAgeMs: number };
  readonly inbox: { readonly pending: number; readonly oldestAgeMs: number };
}

export async function readBacklog(pool: pg.Pool, schema: SchemaName): Promise<Backlog> {
  const { rows } = await pool.query<{ category: 'outbox' | 'inbox'; pending: number; oldest_age_ms: number }>(
    `select category, pending, oldest_age_ms from ${schema.prefix}backlog_statistics()`,
  );
  const of = (category: string) => {
    const row = rows.find((one) => one.category === category);
    return { pending: row?.pending ?? 0, oldestAgeMs: row?.oldest_age_ms ?? 0 };
  };
  return { outbox: of('outbox'), inbox: of('inbox') };
}

/** Reports the backlog whenever the application's metric reader collects; nothing is asked without one. */
export function observeBacklog(read: () => Promise<Backlog>): { stop(): void } {
  const meter = metrics.getMeter('whizbang', libraryVersion);
  const pending = meter.createObservableGauge('whizbang.backlog.pending', {
    description: 'Rows that wait, counted up to 10,000',
  });
  const oldestAge = meter.createObservableGauge('whizbang.backlog.oldest_age', {
    unit: 'ms',
    description: 'Age of the oldest row that waits and is due',
  });
  let latest: Promise<Backlog | undefined> | undefined;
  const once = () => {
    // Both gauges are collected in one go; they share one look at the database.
    latest ??= within(read(), answerWithinMs, () => new Error('the database does not answer'))
      .catch(() => undefined)
      .finally(() => setImmediate(() => (latest = undefined)));
    return latest;
  };
  const observePending = async (result: ObservableResult) => {
    const backlog = await once();
    if (backlog !== undefined) {
      result.observe(backlog.outbox.pending, { category: 'outbox' });
      result.observe(backlog.inbox.pending, { category: 'inbox' });
    }
  };
  const observeAge = async (result: ObservableResult) => {
    const backlog = await once();
    if (backlog !== undefined) {
      result.observe(backlog.outbox.oldestAgeMs, { category: 'outbox' });
      result.observe(backlog.inbox.oldestAgeMs, { category: 'inbox' });
    }
  };
  pending.addCallback(observePending);
  oldestAge.addCallback(observeAge);
  return {
    stop: () => {
      pending.removeCallback(observePending);
      oldestAge.removeCallback(observeAge);
    },
  };
}
