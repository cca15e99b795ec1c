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

/**
 * Reads the `metadata` column. Anybody who may insert rows may have written anything there, and a transport encodes texts only:
 * what throws in the middle of encoding a batch would take the rest of it along. null counts as absent.
 *
 * @throws TypeError that names what is no text
 */
export function readMetadata(json: string): MessageMetadata {
  const metadata: unknown = JSON.parse(json);
  if (!isObject(metadata)) {
    throw new TypeError('the metadata of the row is no object');
  }
  for (const [name, value] of Object.entries(metadata)) {
    if (value === null) {
      delete metadata[name];
    } else if (name === 'headers') {
      checkHeaders(value);
    } else if (typeof value !== 'string') {
      throw new TypeError(`${name} in the metadata of the row is no text`);
    }
  }
  return metadata;
}

function checkHeaders(headers: unknown): void {
  if (!isObject(headers)) {
    throw new TypeError('the headers of the row are no object');
  }
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string') {
      throw new TypeError(`the header ${name.slice(0, 140)} of the row is no text`);
    }
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
