import type pg from 'pg';
import { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { MessageContext, PublishOptions } from '../contract/message-context.js';
import { type MessageDefinition, describeSchemaIssue } from '../contract/message-definition.js';
import type { MessageMetadata } from '../contract/message-metadata.js';
import type { HandlerTransaction, Transaction } from '../contract/transaction.js';
import { cutConnection } from '../database/cut-connection.js';
import { withDeadline } from '../database/deadline.js';
import { beginReadCommitted } from '../database/read-committed.js';
import { DatabaseUnavailableError } from '../errors/whizbang-error.js';
import type { InboxStore } from '../inbox/inbox-store.js';
import { after } from '../runtime/clock.js';
import type { HeldMessage, Unit } from '../runtime/lanes.js';
import type { Cause } from '../outbox/message-writer.js';
import { inHandlerSpan } from '../telemetry/trace-context.js';
import type { RegisteredHandler } from './handler-registry.js';

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
  readonly publish: PublishInTransaction;
  /** Of statements that are not the handler's. */
  readonly deadlineMs: number;
}

// How long a handler may take to end once its signal is aborted. Nothing of it can be committed any more, and what it waits for
// may be a server that does not answer.
const abortPatienceMs = 1_000;

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
  const ours = withDeadline(client, settings.deadlineMs);
  const stopWaiting = whenAborted(signal, abortPatienceMs, () => cutConnection(client));
  let outcome: UnitOutcome | undefined;
  try {
    await ours.query(beginReadCommitted);
    outcome = await runInTransaction(unit, handler, settings, client, signal);
    await ours.query(outcome.kind === 'handled' ? 'commit' : 'rollback');
    return outcome;
  } catch (error) {
    if (error instanceof DatabaseUnavailableError) {
      onLost(error);
    }
    // What the database refused (a completion, a commit) must not stay open on a connection that others will use.
    broken =
      lost !== undefined ||
      (await ours.query('rollback').then(
        () => false,
        () => true,
      ));
    if (outcome?.kind === 'failed' && signal.aborted) {
      // The connection was cut because of it.
      return outcome;
    }
    return lost === undefined
      ? { kind: 'failed', error, reason: MessageFailureReason.Unknown, retryable: true }
      : { kind: 'outage', error };
  } finally {
    stopWaiting();
    client.off('error', onLost);
    client.off('end', onLost);
    // A connection whose transaction may still be open must not go back to the pool; closing it rolls back.
    client.release(lost ?? (broken || signal.aborted));
  }
}

/** Calls `work` so long after the signal is aborted. Returns how to call it off. */
function whenAborted(signal: AbortSignal, ms: number, work: () => void): () => void {
  let timer: { cancel(): void } | undefined;
  const begin = () => {
    timer = after(ms, work);
  };
  signal.addEventListener('abort', begin, { once: true });
  return () => {
    signal.removeEventListener('abort', begin);
    timer?.cancel();
  };
}

async function runInTransaction(
  unit: Unit,
  handler: RegisteredHandler,
  settings: HandleSettings,
  client: pg.PoolClient,
  signal: AbortSignal,
): Promise<UnitOutcome> {
  const tx = client as HandlerTransaction;
  const ours = withDeadline(client, settings.deadlineMs);
  const messages: { payload: unknown; context: MessageContext }[] = [];
  for (const row of unit.rows) {
    const read = await readPayload(row, handler.definition);
    if ('problem' in read) {
      return { kind: 'failed', error: new Error(read.problem), reason: read.reason, retryable: false };
    }
    messages.push({ payload: read.payload, context: contextOf(row, tx, settings.publish, signal) });
  }
  const [first] = unit.rows;
  const run = async () => {
    await handler.run(messages);
  };
  try {
    await (first === undefined ? run() : inHandlerSpan({ ...first, metadata: metadataOf(first) }, first.attempts, run));
    signal.throwIfAborted();
  } catch (error) {
    const reason = signal.aborted ? MessageFailureReason.LeaseExpired : MessageFailureReason.Unknown;
    return { kind: 'failed', error, reason, retryable: true };
  }
  for (const holder of new Set(unit.rows.map((row) => row.holder))) {
    const rows = unit.rows.filter((row) => row.holder === holder);
    const stale = await settings.store.complete(ours, holder, rows, settings.retainCompleted);
    if (stale.length > 0) {
      return { kind: 'lost' };
    }
  }
  return { kind: 'handled' };
}

type ReadPayload = { readonly payload: unknown } | { readonly problem: string; readonly reason: MessageFailureReason };

async function readPayload(row: HeldMessage, definition: MessageDefinition): Promise<ReadPayload> {
  let value: unknown;
  try {
    value = JSON.parse(row.eventData);
  } catch (error) {
    return { problem: String(error), reason: MessageFailureReason.SerializationError };
  }
  const result = await definition.schema['~standard'].validate(value);
  if (result.issues === undefined) {
    return { payload: result.value };
  }
  const issues = result.issues.map(describeSchemaIssue);
  return {
    problem: `the payload breaks its schema: ${issues.join('; ')}`,
    reason: MessageFailureReason.ValidationError,
  };
}

function metadataOf(row: HeldMessage): MessageMetadata {
  return JSON.parse(row.metadata) as MessageMetadata;
}

function contextOf(
  row: HeldMessage,
  tx: HandlerTransaction,
  publish: PublishInTransaction,
  signal: AbortSignal,
): MessageContext {
  const metadata = metadataOf(row);
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
    status: row.status,
  };
}
