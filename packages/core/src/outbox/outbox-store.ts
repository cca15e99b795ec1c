import type pg from 'pg';
import type { ClaimRequest, ClaimResult, ClaimedTry, FailureSettings, Settlements } from '../contract/work.js';
import type { Transaction } from '../contract/transaction.js';
import {
  type ExchangeRow,
  closedArrays,
  exchangeColumns,
  failureJson,
  readExchange,
  tryArrays,
} from '../database/claim-rows.js';
import type { SchemaName } from '../database/schema-name.js';
import { timestamptz } from '../database/timestamptz.js';

/** A message on its way into `wh_outbox`. */
export interface NewOutboxMessage {
  readonly messageId: string;
  readonly destination: string;
  readonly messageType: string;
  readonly eventData: string;
  readonly metadata: string;
  readonly streamId: string | null;
  readonly scheduledFor: Date | null;
  /** Wait for other transactions that write to the same stream. */
  readonly serialize: boolean;
}

/** The outbox's SQL. */
export class OutboxStore {
  readonly #pool: pg.Pool;
  readonly #storeText: string;
  readonly #storeOneText: string;
  readonly #lockText: string;
  readonly #exchangeText: string;
  readonly #renewText: string;

  constructor(pool: pg.Pool, schema: SchemaName) {
    this.#pool = pool;
    this.#storeText = `select ${schema.prefix}store_outbox_messages($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::timestamptz[]) as stored`;
    // The same call. Nobody has to write the body as an element of an array, and to read it as one.
    this.#storeOneText = `select ${schema.prefix}store_outbox_messages(array[$1::uuid], array[$2::text], array[$3::text], array[$4::text], array[$5::text], array[$6::uuid], array[$7::timestamptz]) as stored`;
    this.#lockText = `select ${schema.prefix}lock_streams($1::uuid[])`;
    this.#exchangeText = `select ${exchangeColumns} from ${schema.prefix}exchange_outbox_work($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`;
    this.#renewText = `select ${schema.prefix}renew_outbox_leases($1, $2, $3, $4) as stale`;
  }

  async store(tx: Transaction, messages: readonly NewOutboxMessage[]): Promise<void> {
    const serialized = messages.flatMap((message) =>
      message.serialize && message.streamId !== null ? [message.streamId] : [],
    );
    if (serialized.length > 0) {
      // Before the insert, because the order inside a stream is drawn there.
      await tx.query(this.#lockText, [serialized]);
    }
    const [only] = messages;
    if (messages.length === 1 && only !== undefined) {
      await tx.query(this.#storeOneText, [
        only.messageId,
        only.destination,
        only.messageType,
        only.eventData,
        only.metadata,
        only.streamId,
        scheduled(only),
      ]);
      return;
    }
    await tx.query(this.#storeText, [
      messages.map((message) => message.messageId),
      messages.map((message) => message.destination),
      messages.map((message) => message.messageType),
      messages.map((message) => message.eventData),
      messages.map((message) => message.metadata),
      messages.map((message) => message.streamId),
      messages.map(scheduled),
    ]);
  }

  /** Settles and claims in one round trip and one commit. */
  async exchange(
    holder: string,
    settlements: Settlements,
    failures: FailureSettings,
    retain: boolean,
    claim: ClaimRequest,
  ): Promise<ClaimResult> {
    const { rows } = await this.#pool.query<ExchangeRow>(this.#exchangeText, [
      holder,
      ...tryArrays(settlements.completed),
      retain,
      ...failureJson(settlements.failed, failures),
      ...tryArrays(settlements.released),
      claim.limit,
      claim.maxBytes,
      claim.leaseSeconds,
      claim.blockLeased,
      ...closedArrays(claim.closed),
    ]);
    return readExchange(rows);
  }

  /** Returns the ids that the holder no longer held. */
  async renew(holder: string, tries: readonly ClaimedTry[], leaseSeconds: number): Promise<readonly string[]> {
    const { rows } = await this.#pool.query<{ stale: string[] | null }>(this.#renewText, [
      holder,
      ...tryArrays(tries),
      leaseSeconds,
    ]);
    return rows[0]?.stale ?? [];
  }
}

function scheduled({ scheduledFor }: NewOutboxMessage): string | null {
  return scheduledFor === null ? null : timestamptz(scheduledFor);
}
