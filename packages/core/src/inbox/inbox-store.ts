import type pg from 'pg';
import type { ReceivedMessage } from '../contract/cloud-event.js';
import type { HandlerTransaction } from '../contract/transaction.js';
import type { ClaimRequest, ClaimResult, ClaimedTry, FailureSettings, Settlements } from '../contract/work.js';
import {
  type ExchangeRow,
  closedArrays,
  exchangeColumns,
  failureJson,
  readExchange,
  tryArrays,
} from '../database/claim-rows.js';
import type { SchemaName } from '../database/schema-name.js';

/** A delivery that could not be read, kept whole. */
export interface UndecodableDelivery {
  readonly sourceId: string;
  readonly messageType: string;
  readonly destination: string;
  readonly body: Buffer;
  /** JSON text of its attributes and headers. */
  readonly metadata: string;
  readonly error: string;
}

/** The inbox's SQL. */
export class InboxStore {
  readonly #pool: pg.Pool;
  readonly #storeText: string;
  readonly #undecodableText: string;
  readonly #exchangeText: string;
  readonly #completeText: string;
  readonly #renewText: string;

  constructor(pool: pg.Pool, schema: SchemaName) {
    this.#pool = pool;
    this.#storeText = `select ${schema.prefix}store_inbox_messages($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[]) as message_id`;
    this.#undecodableText = `select ${schema.prefix}store_undecodable_deliveries($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7, $8, $9) as stored`;
    this.#exchangeText = `select ${exchangeColumns} from ${schema.prefix}exchange_inbox_work($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`;
    this.#completeText = `select ${schema.prefix}complete_inbox_handled($1, $2, $3, $4) as stale`;
    this.#renewText = `select ${schema.prefix}renew_inbox_leases($1, $2, $3, $4) as stale`;
  }

  /** Stores deliveries in their order; returns the ids that were new. */
  async store(
    messages: readonly ReceivedMessage[],
    handlerNameOf: (messageType: string) => string,
  ): Promise<Set<string>> {
    const { rows } = await this.#pool.query<{ message_id: string }>(this.#storeText, [
      messages.map((message) => message.messageId),
      messages.map((message) => handlerNameOf(message.messageType)),
      messages.map((message) => message.messageType),
      messages.map((message) => message.destination),
      messages.map((message) => message.eventData),
      messages.map((message) => JSON.stringify(message.metadata)),
      messages.map((message) => message.streamId),
    ]);
    return new Set(rows.map((row) => row.message_id));
  }

  async storeUndecodable(
    deliveries: readonly UndecodableDelivery[],
    reason: number,
    generation: string,
    holder: string,
  ): Promise<void> {
    await this.#pool.query(this.#undecodableText, [
      deliveries.map((delivery) => delivery.sourceId),
      deliveries.map((delivery) => delivery.messageType),
      deliveries.map((delivery) => delivery.destination),
      deliveries.map((delivery) => delivery.body),
      deliveries.map((delivery) => delivery.metadata),
      deliveries.map((delivery) => delivery.error),
      reason,
      generation,
      holder,
    ]);
  }

  /** Records failures, releases, and claims, in one round trip and one commit. */
  async exchange(
    holder: string,
    settlements: Settlements,
    failures: FailureSettings,
    claim: ClaimRequest,
  ): Promise<ClaimResult> {
    const { rows } = await this.#pool.query<ExchangeRow>(this.#exchangeText, [
      holder,
      ...failureJson(settlements.failed, failures),
      ...tryArrays(settlements.released),
      ...tryArrays(settlements.deferred ?? []),
      claim.limit,
      claim.maxBytes,
      claim.leaseSeconds,
      claim.blockLeased,
      ...closedArrays(claim.closed),
    ]);
    return readExchange(rows);
  }

  /** Completes in the handler's transaction; returns the ids that the holder no longer held. */
  async complete(
    tx: HandlerTransaction,
    holder: string,
    tries: readonly ClaimedTry[],
    retain: boolean,
  ): Promise<readonly string[]> {
    const { rows } = await tx.query<{ stale: string[] | null }>(this.#completeText, [
      holder,
      ...tryArrays(tries),
      retain,
    ]);
    return rows[0]?.stale ?? [];
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
