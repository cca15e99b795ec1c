/**
 * What travels beside the payload, as the `metadata` column holds it (JSON). Everything is optional: a row that plain SQL
 * stored may have none of it.
 */
export interface MessageMetadata {
  /** The text that the stream id was made of; Kafka key and Service Bus session id. */
  readonly streamKey?: string;
  /** The user's headers. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The conversation that a message belongs to: the id of the message that began it. */
  readonly correlationId?: string;
  /** The id of the message in whose handler this one was published. */
  readonly causationId?: string;
  /** W3C trace context. */
  readonly traceparent?: string;
  readonly tracestate?: string;
  /** When it was published, RFC 3339. */
  readonly time?: string;
  /** CloudEvents `source`: the service that published it. Set on received messages. */
  readonly source?: string;
}
