import type pg from 'pg';
import { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { MessageContext, PublishOptions } from '../contract/message-context.js';
import { type MessageDefinition, describeSchemaIssue } from '../contract/message-definition.js';
import { type MessageMetadata, readMetadata } from '../contract/message-metadata.js';
import type { HandlerTransaction, Transaction } from '../contract/transaction.js';
import { cutConnection } from '../database/cut-connection.js';
import { beginReadCommitted } from '../database/read-committed.js';
import type { InboxStore } from '../inbox/inbox-store.js';
import { after } from '../runtime/clock.js';
import type { HeldMessage, Unit } from '../runtime/lanes.js';
import type { Cause } from '../outbox/message-writer.js';
import { type TracedMessage, inHandlerSpan } from '../telemetry/trace-context.js';
import type { RegisteredHandler } from './handler-registry.js';
import { lendTransaction } from './lent-transaction.js';

/** Publishes in a given transaction, on behalf of a message in hand. */
export type PublishInTransaction = (
  tx: Transaction,
  message: MessageDefinition,
  payload: unknown,
  options: PublishOptions,
  cause: Cause,
) => Promise<{ messageId: string }>;

export type UnitOutcome =
  | { readonly kind: 'handled' }
  /** The lease had run out: another instance has the rows, and nothing of this try was committed. */
  | { readonly kind: 'lost' }
  /** The database was away: no try of the message. */
  | { readonly kind: 'outage'; readonly error: unknown }
  | {
      readonly kind: 'failed';
      readonly error: unknown;
      readonly reason: MessageFailureReason;
      /** False: the same message cannot succeed. */
      readonly retryable: boolean;
    };

interface HandleSettings {
  readonly pool: pg.Pool;
  readonly store: InboxStore;
  readonly retainCompleted: boolean;
  /** The longest that a handler may leave its transaction alone: the time for which its lease can be renewed. */
  readonly longestMs: number;
  readonly publish: PublishInTransaction;
  /** Whether the leases of all rows of a unit still run. */
  readonly holds: (unit: Unit) => boolean;
}

/** Why the signal of a handler aborts, other than for the stop: what it does can no longer be committed. */
export class LeaseEnding extends Error {
  override readonly name = 'LeaseEnding';
}

// What a handler that is told so has for cleaning up. One that waits for a server that does not answer any more would wait for ever.
const cutAfterMs = 5_000;

/**
 * Runs a handler in its own transaction: BEGIN, the handler, the completion of its rows, COMMIT. Its writes, what it
 * publishes and the completion commit together or not at all. Never rejects.
 */
export async function handleUnit(
  unit: Unit,
  handler: RegisteredHandler,
  settings: HandleSettings,
  signal: AbortSignal,
): Promise<UnitOutcome> {
  let client: pg.PoolClient;
  try {
    client = await settings.pool.connect();
  } catch (error) {
    return { kind: 'outage', error };
  }
  let lost: Error | undefined;
  let broken = false;
  const onLost = (error?: Error) => {
    lost ??= error ?? new Error('the database connection ended');
  };
  client.on('error', onLost);
  client.on('end', onLost);
  let cutting: { cancel(): void } | undefined;
  const onAbort = () => {
    if (signal.reason instanceof LeaseEnding) {
      cutting = after(cutAfterMs, () => cutConnection(client));
    }
  };
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) {
    onAbort();
  }
  let outcome: UnitOutcome | undefined;
  try {
    await client.query(beginReadCommitted(settings.longestMs));
    if (!settings.holds(unit)) {
      // The wait for a connection was longer than the lease, or the process stood still in it.
      await client.query('rollback');
      return { kind: 'lost' };
    }
    outcome = await runInTransaction(unit, handler, settings, client, signal);
    await client.query(outcome.kind === 'handled' ? 'commit' : 'rollback');
    return outcome;
  } catch (error) {
    // What the database refused (a completion, a commit) must not stay open on a connection that others will use.
    broken = await client.query('rollback').then(
      () => false,
      () => true,
    );
    if (outcome?.kind === 'failed' && signal.reason instanceof LeaseEnding) {
      // The connection was cut because of this try, which counts: a handler that hangs each time must not be tried for ever.
      return outcome;
    }
    return lost === undefined
      ? { kind: 'failed', error, reason: MessageFailureReason.Unknown, retryable: true }
      : { kind: 'outage', error };
  } finally {
    signal.removeEventListener('abort', onAbort);
    cutting?.cancel();
    client.off('error', onLost);
    client.off('end', onLost);
    // A connection whose transaction may still be open must not go back to the pool; closing it rolls back.
    client.release(lost ?? (broken || signal.aborted));
  }
}

async function runInTransaction(
  unit: Unit,
  handler: RegisteredHandler,
  settings: HandleSettings,
  client: pg.PoolClient,
  signal: AbortSignal,
): Promise<UnitOutcome> {
  const { tx, takeBack } = lendTransaction(client);
  const messages: { payload: unknown; context: MessageContext }[] = [];
  const traced: TracedMessage[] = [];
  for (const row of unit.rows) {
    const read = await readPayload(row, handler.definition);
    if ('problem' in read) {
      return { kind: 'failed', error: new Error(read.problem), reason: read.reason, retryable: false };
    }
    traced.push({ ...row, metadata: read.metadata });
    messages.push({ payload: read.payload, context: contextOf(row, read.metadata, tx, settings.publish, signal) });
  }
  const [first, ...others] = traced;
  const run = async () => {
    await handler.run(messages);
  };
  try {
    await (first === undefined ? run() : inHandlerSpan([first, ...others], run));
    signal.throwIfAborted();
  } catch (error) {
    const reason = signal.aborted ? MessageFailureReason.LeaseExpired : MessageFailureReason.Unknown;
    return { kind: 'failed', error, reason, retryable: true };
  } finally {
    takeBack();
  }
  for (const holder of new Set(unit.rows.map((row) => row.holder))) {
    const rows = unit.rows.filter((row) => row.holder === holder);
    const stale = await settings.store.complete(client, holder, rows, settings.retainCompleted);
    if (stale.length > 0) {
      return { kind: 'lost' };
    }
  }
  return { kind: 'handled' };
}

type ReadPayload =
  | { readonly payload: unknown; readonly metadata: MessageMetadata }
  | { readonly problem: string; readonly reason: MessageFailureReason };

async function readPayload(row: HeldMessage, definition: MessageDefinition): Promise<ReadPayload> {
  let value: unknown;
  let metadata: MessageMetadata;
  try {
    value = JSON.parse(row.eventData);
    metadata = readMetadata(row.metadata);
  } catch (error) {
    return { problem: String(error), reason: MessageFailureReason.SerializationError };
  }
  const result = await definition.schema['~standard'].validate(value);
  if (result.issues === undefined) {
    return { payload: result.value, metadata };
  }
  const issues = result.issues.map(describeSchemaIssue);
  return {
    problem: `the payload breaks its schema: ${issues.join('; ')}`,
    reason: MessageFailureReason.ValidationError,
  };
}

function contextOf(
  row: HeldMessage,
  metadata: MessageMetadata,
  tx: HandlerTransaction,
  publish: PublishInTransaction,
  signal: AbortSignal,
): MessageContext {
  const correlationId = metadata.correlationId ?? row.messageId;
  return {
    tx,
    publish: (message, payload, options = {}) =>
      publish(tx, message, payload, options, { messageId: row.messageId, correlationId }),
    attempt: row.attempts,
    signal,
    messageId: row.messageId,
    messageType: row.messageType,
    streamId: row.streamId,
    streamKey: metadata.streamKey ?? null,
    correlationId,
    causationId: metadata.causationId ?? null,
    source: metadata.source ?? null,
    headers: metadata.headers ?? {},
    json: row.eventData,
    status: row.status,
  };
}
