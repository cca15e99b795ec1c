import { isDeeperThan } from './faithful-json.js';
import type { MessageMetadata } from './message-metadata.js';
import { isEmptyUuid, isUuid, messageIdOf, streamIdOf } from './stream-id.js';
import type { Delivery } from './transport.js';

/** The CloudEvents 1.0 context attributes of a message on its way out. */
export function attributesOf(
  message: { messageId: string; messageType: string; streamId: string | null },
  metadata: MessageMetadata,
  service: string,
): Record<string, string> {
  const attributes: Record<string, string | undefined> = {
    specversion: '1.0',
    id: message.messageId,
    source: `/${service}`,
    type: message.messageType,
    datacontenttype: 'application/json',
    time: metadata.time,
    // `partitionkey` is the documented extension for the key by which brokers keep order.
    partitionkey: metadata.streamKey ?? message.streamId ?? undefined,
    correlationid: metadata.correlationId,
    causationid: metadata.causationId,
    traceparent: metadata.traceparent,
    tracestate: metadata.tracestate,
  };
  return Object.fromEntries(
    Object.entries(attributes).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

/** A delivery that could be read. */
export interface ReceivedMessage {
  readonly messageId: string;
  readonly messageType: string;
  readonly destination: string;
  readonly streamId: string | null;
  readonly eventData: string;
  readonly metadata: MessageMetadata;
}

const maxTypeLength = 500;
// PostgreSQL 18 with its default stack takes 20,000 levels and not 50,000.
const maxReceivedDepth = 5_000;
const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads a delivery, from Whizbang or from any other CloudEvents sender.
 *
 * @throws Error that says what is missing or malformed; such a delivery is kept with its bytes among the dead letters
 */
export function readDelivery(delivery: Delivery): ReceivedMessage {
  const { attributes } = delivery;
  const { id, type } = attributes;
  if (!id) {
    throw new Error('the attribute id is missing');
  }
  if (!type) {
    throw new Error('the attribute type is missing');
  }
  // What the inbox cannot hold would keep its batch, and with it the queue, from ever being stored.
  if (type.length > maxTypeLength || type.includes('\0') || !type.isWellFormed()) {
    throw new Error(
      `the attribute type has more than ${maxTypeLength} characters, a NUL character or half a surrogate pair`,
    );
  }
  const contentType = attributes['datacontenttype'];
  if (contentType !== undefined && !/^application\/([\w.+-]+\+)?json\s*(;|$)/i.test(contentType)) {
    throw new Error(`the body is ${contentType.slice(0, 100)}, not JSON`);
  }
  const eventData = decoder.decode(delivery.body);
  JSON.parse(eventData);
  if (isDeeperThan(maxReceivedDepth, eventData)) {
    throw new Error(`the body is nested more than ${maxReceivedDepth} levels deep`);
  }
  const source = attributes['source'];
  const streamKey = attributes['partitionkey'];
  if (streamKey !== undefined && isEmptyUuid(streamKey)) {
    throw new Error('EmptyStreamId: the attribute partitionkey is the all-zero UUID');
  }
  const metadata: Record<string, unknown> = {
    streamKey,
    headers: Object.keys(delivery.headers).length > 0 ? delivery.headers : undefined,
    correlationId: attributes['correlationid'],
    causationId: attributes['causationid'],
    traceparent: attributes['traceparent'],
    tracestate: attributes['tracestate'],
    time: attributes['time'],
    source,
    originalId: isUuid(id) ? undefined : id,
  };
  return {
    messageId: messageIdOf(id, source ?? ''),
    messageType: type,
    destination: delivery.destination,
    streamId: streamKey === undefined || streamKey === '' ? null : streamIdOf(streamKey),
    eventData,
    metadata,
  };
}
