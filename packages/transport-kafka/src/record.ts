import type { OutgoingMessage } from '@whizbang/core/transport';
import { KafkaError } from './errors.js';
import { encodeHeaders } from './headers.js';
import type { OutgoingRecord } from './kafka-broker.js';

/** Around the records of a batch. */
export const batchOverheadBytes = 61;
// Of a record: its length, attributes, two deltas, the lengths of key and value, the number of headers; the most they take.
const recordOverheadBytes = 40;
const headerOverheadBytes = 10;
const loneSurrogate = /\p{Surrogate}/u;

/** A message as it goes into a batch, with the bytes it takes there at most. */
export interface SizedRecord {
  readonly record: OutgoingRecord;
  readonly bytes: number;
}

/**
 * The record of a message, or what the broker or kafkajs would refuse it for. It is found here because there it takes all
 * messages of its batch down.
 */
export function encodeRecord(
  message: OutgoingMessage,
  { maxMessageBytes, maxBatchBytes }: { readonly maxMessageBytes: number; readonly maxBatchBytes: number },
): SizedRecord | KafkaError {
  const { body, attributes, streamId } = message;
  if (!Buffer.isBuffer(body)) return refusal('the body is not a Buffer', 'unencodable');
  if (body.length > maxMessageBytes) {
    return refusal(`the body has ${body.length} bytes, and ${maxMessageBytes} are allowed`, 'messageTooLarge');
  }
  const partitionKey = attributes['partitionkey'] ?? streamId;
  const key = typeof partitionKey === 'string' && partitionKey !== '' ? Buffer.from(partitionKey) : null;
  const headers: Record<string, Buffer> = {};
  let bytes = recordOverheadBytes + body.length + (key?.length ?? 0);
  for (const [name, value] of encodeHeaders(message)) {
    if (typeof value !== 'string') return refusal(`header "${name}" is not a string`, 'invalidMessage');
    if (loneSurrogate.test(value) || loneSurrogate.test(name)) {
      return refusal(`header "${name}" holds half a surrogate pair, which UTF-8 cannot carry`, 'invalidMessage');
    }
    const encoded = Buffer.from(value);
    headers[name] = encoded;
    bytes += headerOverheadBytes + Buffer.byteLength(name) + encoded.length;
  }
  const room = maxBatchBytes - batchOverheadBytes;
  if (bytes > room) {
    return refusal(`with its headers it has ${bytes} bytes, and ${room} fit into a record batch`, 'messageTooLarge');
  }
  // The sender may use its buffer for something else as soon as the broker has confirmed, and no sooner.
  return { record: { key, value: body, headers }, bytes };
}

function refusal(sentence: string, condition: 'unencodable' | 'messageTooLarge' | 'invalidMessage'): KafkaError {
  return new KafkaError(`the message cannot be sent: ${sentence}`, condition);
}
