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
  /** The key as text; empty without one. */
  readonly partitionKey: string;
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
  const partitionKey = attributes['partitionkey'] ?? streamId ?? '';
  const key = partitionKey === '' ? null : Buffer.from(partitionKey);
  const headers: Record<string, string> = {};
  let bytes = recordOverheadBytes + body.length + (key?.length ?? 0);
  for (const [name, value] of encodeHeaders(message)) {
    if (typeof value !== 'string') return refusal(`header "${name}" is not a string`, 'invalidMessage');
    const nameBytes = Buffer.byteLength(name);
    const valueBytes = Buffer.byteLength(value);
    // Plain ASCII, the usual case, has as many bytes as characters and needs no closer look.
    if (
      (valueBytes !== value.length && loneSurrogate.test(value)) ||
      (nameBytes !== name.length && loneSurrogate.test(name))
    ) {
      return refusal(`header "${name}" holds half a surrogate pair, which UTF-8 cannot carry`, 'invalidMessage');
    }
    headers[name] = value;
    bytes += headerOverheadBytes + nameBytes + valueBytes;
  }
  const room = maxBatchBytes - batchOverheadBytes;
  if (bytes > room) {
    return refusal(`with its headers it has ${bytes} bytes, and ${room} fit into a record batch`, 'messageTooLarge');
  }
  // The sender may use its buffer for something else as soon as the broker has confirmed, and no sooner.
  return { record: { key, value: body, headers }, partitionKey, bytes };
}

function refusal(sentence: string, condition: 'unencodable' | 'messageTooLarge' | 'invalidMessage'): KafkaError {
  return new KafkaError(`the message cannot be sent: ${sentence}`, condition);
}
