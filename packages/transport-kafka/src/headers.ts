import type { Delivery, OutgoingMessage } from '@whizbang/core/transport';
import type { FetchedRecord } from './kafka-broker.js';

// The Kafka binding of CloudEvents: attributes as headers with this prefix, except the content type.
const prefix = 'ce_';
const contentType = 'content-type';

/**
 * User headers under these names would be taken for attributes, or get lost in kafkajs's decoder, which takes what every
 * object inherits for a header that came before. They travel behind this escape, which the receiving side takes off
 * again; so do names that begin with the escape itself.
 */
const escape = 'x-whizbang-header-';
const needsEscape = (name: string): boolean =>
  name.startsWith(prefix) || name.startsWith(escape) || name === contentType || name in Object.prototype;

const attributeHeader = (name: string): string => (name === 'datacontenttype' ? contentType : prefix + name);

/** The headers of a message: attributes with the CloudEvents prefix, user headers under their own names. */
export function encodeHeaders({ attributes, headers }: OutgoingMessage): [name: string, value: string][] {
  return [
    ...Object.entries(attributes).map(([name, value]): [string, string] => [attributeHeader(name), value]),
    ...Object.entries(headers).map(([name, value]): [string, string] => [
      needsEscape(name) ? escape + name : name,
      value,
    ]),
  ];
}

/** Attributes and headers of a record as strings. A foreign sender's key becomes the attribute `partitionkey`. */
export function decodeDelivery(topic: string, record: FetchedRecord, redelivered: boolean): Delivery {
  const attributes: Record<string, string> = {};
  const headers: Record<string, string> = {};
  for (const [name, received] of Object.entries(record.headers)) {
    const value = headerText(received);
    if (name === contentType) attributes['datacontenttype'] = value;
    else if (name.startsWith(prefix)) assign(attributes, name.slice(prefix.length), value);
    else assign(headers, name.startsWith(escape) ? name.slice(escape.length) : name, value);
  }
  const key = record.key === null ? undefined : utf8(record.key);
  if (key !== undefined && key !== '') attributes['partitionkey'] ??= key;
  return { attributes, headers, body: record.value ?? Buffer.alloc(0), destination: topic, redelivered };
}

/** The type of a record, without decoding the rest of it; undefined when it does not tell. */
export function messageTypeOf(record: FetchedRecord): string | undefined {
  const value = record.headers[`${prefix}type`];
  return value === undefined ? undefined : headerText(value);
}

/** A plain assignment to `__proto__` would vanish. */
function assign(target: Record<string, string>, name: string, value: string): void {
  if (name === '__proto__') Object.defineProperty(target, name, { value, enumerable: true });
  else target[name] = value;
}

/** Text where the bytes are text, else base64. Of a header that came several times, the last. */
function headerText(value: unknown): string {
  const last: unknown = Array.isArray(value) ? value.findLast((item) => Buffer.isBuffer(item)) : value;
  if (!Buffer.isBuffer(last)) return typeof last === 'string' ? last : '';
  return utf8(last) ?? last.toString('base64');
}

function utf8(bytes: Buffer): string | undefined {
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? text : undefined;
}
