/**
 * The caller's database transaction: a `pg` client, or anything else with `query(text, values)` that sends the text with
 * `$1`-style parameters on the connection that holds the transaction.
 */
export interface Transaction {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** The transaction that a handler gets: a `pg` client between BEGIN and COMMIT. */
export interface HandlerTransaction {
  query<Row = Record<string, unknown>>(
    text: string,
    values?: unknown[],
  ): Promise<{ rows: Row[]; rowCount: number | null }>;
}
