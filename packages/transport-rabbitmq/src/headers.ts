import type { Delivery, OutgoingMessage } from '@whizbang/core/transport';
import type { ConsumeMessage } from 'amqplib';

// The CloudEvents AMQP binding lets senders choose between "cloudEvents_" and "cloudEvents:"; receivers take both.
const prefix = 'cloudEvents_';
const receivedPrefix = /^cloudEvents[_:]/;

/**
 * User headers under these names would be taken for attributes, be acted on or overwritten by the broker ("CC" that is not
 * a list closes the channel, "BCC" is removed), or get lost in amqplib's decoder. They travel behind this escape,
 * which the receiving side takes off again; so do names that begin with the escape itself.
 */
const escape = 'x-whizbang-header-';
const needsEscape =
  /^(cloudEvents[_:]|x-whizbang-header-|x-death$|x-(first|last)-death-|x-delivery-count$|x-acquired-count$|CC$|BCC$|__proto__$)/;

/** The broker's own bookkeeping of deliveries, which it adds to the headers; not the sender's. */
const brokerOwned = new Set(['x-delivery-count', 'x-acquired-count']);

const attributeHeaders = new Map<string, string>();
const userHeaders = new Map<string, string>();

/** Remembers what `make` gives: a service uses a dozen names, and looking at them anew for each message costs time. */
function cached(names: Map<string, string>, name: string, make: (name: string) => string): string {
  let wireName = names.get(name);
  if (wireName === undefined) {
    wireName = make(name);
    // Names made up at run time must not fill the memory.
    if (names.size < 1000) names.set(name, wireName);
  }
  return wireName;
}

const attributeHeader = (name: string): string => prefix + name;
const userHeader = (name: string): string => (needsEscape.test(name) ? escape + name : name);

/** The headers of a message: attributes with the CloudEvents prefix, user headers under their own names. */
export function encodeHeaders({ attributes, headers }: OutgoingMessage): Record<string, string> {
  const encoded: Record<string, string> = {};
  for (const name of Object.keys(attributes)) {
    // The binding maps this one to the content-type property.
    if (name === 'datacontenttype') continue;
    encoded[cached(attributeHeaders, name, attributeHeader)] = attributes[name] as string;
  }
  for (const name of Object.keys(headers)) {
    encoded[cached(userHeaders, name, userHeader)] = headers[name] as string;
  }
  return encoded;
}

/** The `time` attribute as an AMQP timestamp, in whole seconds; undefined when it is missing or not a time. */
export function timestampOf(message: OutgoingMessage): number | undefined {
  const { time } = message.attributes;
  const seconds = time === undefined ? Number.NaN : Math.floor(Date.parse(time) / 1000);
  return seconds >= 0 ? seconds : undefined;
}

/**
 * Attributes and headers of a delivery as strings. What a foreign sender did not give as an attribute comes from the
 * AMQP properties: id, type (else the routing key, which bindings are made for), time, content type.
 */
export function decodeDelivery(message: ConsumeMessage, redelivered = message.fields.redelivered): Delivery {
  const attributes: Record<string, string> = {};
  const headers: Record<string, string> = {};
  const received: Readonly<Record<string, unknown>> = message.properties.headers ?? {};
  for (const [name, value] of Object.entries(received)) {
    if (receivedPrefix.test(name)) {
      if (value !== null) assign(attributes, name.slice(prefix.length), headerText(value));
    } else if (!brokerOwned.has(name)) {
      assign(headers, name.startsWith(escape) ? name.slice(escape.length) : name, headerText(value));
    }
  }
  const properties = message.properties as { readonly [name in keyof ConsumeMessage['properties']]: unknown };
  const { messageId, type, timestamp, contentType } = properties;
  if (typeof messageId === 'string') attributes['id'] ??= messageId;
  attributes['type'] ??= typeof type === 'string' ? type : message.fields.routingKey;
  const time = typeof timestamp === 'number' ? isoTime(timestamp) : undefined;
  if (time !== undefined) attributes['time'] ??= time;
  if (typeof contentType === 'string') attributes['datacontenttype'] ??= contentType;
  return { attributes, headers, body: message.content, destination: message.fields.exchange, redelivered };
}

/** A plain assignment to `__proto__` would vanish. */
function assign(target: Record<string, string>, name: string, value: string): void {
  if (name === '__proto__') Object.defineProperty(target, name, { value, enumerable: true });
  else target[name] = value;
}

/** AMQP counts seconds; some senders give milliseconds, which as seconds would lie beyond the year 9999. */
function isoTime(timestamp: number): string | undefined {
  const date = new Date(timestamp > 253_402_300_799 ? timestamp : timestamp * 1000);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** Any AMQP field value as a string: text as it is, lists and tables as JSON, bytes as UTF-8 or else base64. */
function headerText(value: unknown): string {
  if (typeof value === 'string') return value;
  const plain = plainValue(value);
  return typeof plain === 'string' ? plain : (JSON.stringify(plain) ?? '');
}

function plainValue(value: unknown): unknown {
  if (value === null || value === undefined) return '';
  if (typeof value === 'bigint') return value.toString();
  if (Buffer.isBuffer(value)) {
    const text = value.toString('utf8');
    return Buffer.from(text).equals(value) ? text : value.toString('base64');
  }
  if (Array.isArray(value)) return value.map((item) => plainValue(item));
  if (typeof value !== 'object') return value;
  const { '!': type, value: inner } = value as { '!'?: unknown; value?: unknown };
  if (type === 'timestamp' && typeof inner === 'number') return isoTime(inner) ?? String(inner);
  if (type === 'decimal') {
    const { places, digits } = inner as { places: number; digits: number };
    return digits / 10 ** places;
  }
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plainValue(item)]));
}
