import type { OutgoingMessage } from '@whizbang/core/transport';
import type { ServiceBusReceivedMessage } from '@azure/service-bus';

// The CloudEvents AMQP binding lets senders choose between "cloudEvents_" and "cloudEvents:"; receivers take both.
const prefix = 'cloudEvents_';
const receivedPrefix = /^cloudEvents[_:]/;

/** What the SDK adds on the way out when a tracer is active, and what Azure adds when it dead-letters. Not the sender's. */
const diagnosticId = 'Diagnostic-Id';
const brokerOwned = new Set([diagnosticId, 'DeadLetterReason', 'DeadLetterErrorDescription']);

/**
 * User headers under these names would be taken for attributes or for what SDK and broker add, or get lost in the SDK's
 * decoder. They travel behind this escape, which the receiving side takes off again; so do names that begin with it.
 */
const escape = 'x-whizbang-header-';
const needsEscape = new RegExp(`^(cloudEvents[_:]|${escape}|(${[...brokerOwned].join('|')}|__proto__|)$)`);

/** The application properties of a message: attributes with the CloudEvents prefix, user headers under their own names. */
export function encodeProperties({ attributes, headers }: OutgoingMessage): Record<string, string> {
  const encoded: Record<string, string> = {};
  for (const [name, value] of Object.entries(attributes)) {
    // The binding maps this one to the content-type property.
    if (name !== 'datacontenttype') encoded[prefix + name] = value;
  }
  for (const [name, value] of Object.entries(headers)) {
    encoded[needsEscape.test(name) ? escape + name : name] = value;
  }
  return encoded;
}

type Received = Pick<
  ServiceBusReceivedMessage,
  'applicationProperties' | 'messageId' | 'subject' | 'contentType' | 'enqueuedTimeUtc'
>;

/**
 * Attributes and headers of a delivery as strings. What a foreign sender did not give as an attribute comes from the
 * message's properties: id, type (the subject), content type, the trace, and the time of arrival at the broker.
 */
export function decodeProperties(message: Received): {
  readonly attributes: Record<string, string>;
  readonly headers: Record<string, string>;
} {
  const attributes: Record<string, string> = {};
  const headers: Record<string, string> = {};
  const { applicationProperties, messageId, subject, contentType, enqueuedTimeUtc } = message;
  for (const [name, value] of Object.entries(applicationProperties ?? {})) {
    if (receivedPrefix.test(name)) {
      if (value !== null && value !== undefined) attributes[name.slice(prefix.length)] = headerText(value);
    } else if (!brokerOwned.has(name)) {
      assign(headers, name.startsWith(escape) ? name.slice(escape.length) : name, headerText(value));
    }
  }
  const isForeign = attributes['specversion'] === undefined;
  if (messageId !== undefined) attributes['id'] ??= headerText(messageId);
  if (typeof subject === 'string') attributes['type'] ??= subject;
  if (typeof contentType === 'string') attributes['datacontenttype'] ??= contentType;
  if (isForeign) {
    const trace = applicationProperties?.[diagnosticId];
    if (typeof trace === 'string') attributes['traceparent'] ??= trace;
    if (enqueuedTimeUtc !== undefined) attributes['time'] ??= enqueuedTimeUtc.toISOString();
  }
  return { attributes, headers };
}

/** A plain assignment to `__proto__` would vanish. */
function assign(target: Record<string, string>, name: string, value: string): void {
  if (name === '__proto__') Object.defineProperty(target, name, { value, enumerable: true });
  else target[name] = value;
}

/** Any value as a string: text as it is, times as ISO, bytes as UTF-8 or else base64, everything else as JSON. */
function headerText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '';
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Date) return value.toISOString();
  if (Buffer.isBuffer(value)) {
    const text = value.toString('utf8');
    return Buffer.from(text).equals(value) ? text : value.toString('base64');
  }
  return JSON.stringify(value) ?? '';
}
