import { MessageFailureReason, type OutgoingMessage } from '@whizbang/core/transport';
import type { Options } from 'amqplib';
import { RabbitmqError } from './errors.js';
import { encodeHeaders, timestampOf } from './headers.js';

export interface MessageLimits {
  /** Largest body in bytes. */
  readonly maxMessageBytes: number;
  /** Largest frame in bytes, as negotiated with the broker. */
  readonly frameMax: number;
}

// amqplib encodes the header table into a buffer of this size and throws beyond it.
const maxHeaderTableBytes = 65_536;
// AMQP "short strings" carry their length in one byte.
const maxShortStringBytes = 255;
// Of the frame that carries the properties: 8 bytes around it, 14 before the properties, 1 delivery mode, 8 timestamp.
const frameOverheadBytes = 31;
const loneSurrogate = /\p{Surrogate}/u;

/**
 * The AMQP properties of a message, or the error that the broker or amqplib would answer it with. It is found here because
 * there it closes the channel, or for large headers the connection, and every message behind it goes down too.
 */
export function checkMessage(message: OutgoingMessage, limits: MessageLimits): Options.Publish | RabbitmqError {
  const { body, messageId, messageType, destination, attributes } = message;
  if (!Buffer.isBuffer(body)) {
    return refusal('SerializationError', 'the body is not a Buffer');
  }
  if (body.length > limits.maxMessageBytes) {
    return refusal(
      'MessageBodyTooLarge',
      `the body has ${body.length} bytes, and the broker takes ${limits.maxMessageBytes}`,
    );
  }
  if (destination === '') return refusal('ValidationError', 'the destination is empty');
  const contentType = attributes['datacontenttype'] ?? 'application/json';
  let propertyBytes = 0;
  for (const [name, value] of [
    ['destination', destination],
    ['message type', messageType],
    ['message id', messageId],
    ['content type', contentType],
  ] as const) {
    const bytes = Buffer.byteLength(value);
    if (bytes > maxShortStringBytes) {
      return refusal('ValidationError', `the ${name} has ${bytes} bytes, and AMQP allows ${maxShortStringBytes}`);
    }
    if (name !== 'destination') propertyBytes += 1 + bytes;
  }
  const headers = encodeHeaders(message);
  let headerBytes = 4;
  for (const name in headers) {
    const value = headers[name];
    if (typeof value !== 'string') return refusal('ValidationError', `header "${name}" is not a string`);
    const nameBytes = Buffer.byteLength(name);
    if (nameBytes > maxShortStringBytes) {
      const start = name.slice(0, 40);
      return refusal(
        'ValidationError',
        `the header name "${start}…" has ${nameBytes} bytes, and AMQP allows ${maxShortStringBytes}`,
      );
    }
    if (loneSurrogate.test(value) || loneSurrogate.test(name)) {
      return refusal('ValidationError', `header "${name}" holds half a surrogate pair, which UTF-8 cannot carry`);
    }
    headerBytes += 6 + nameBytes + Buffer.byteLength(value);
  }
  const room = Math.min(maxHeaderTableBytes, limits.frameMax - frameOverheadBytes - propertyBytes);
  if (headerBytes > room) {
    return refusal('MessageBodyTooLarge', `the headers have ${headerBytes} bytes, and ${room} fit into one AMQP frame`);
  }
  const timestamp = timestampOf(message);
  return {
    persistent: true,
    contentType,
    messageId,
    type: messageType,
    headers,
    ...(timestamp === undefined ? undefined : { timestamp }),
  };
}

function refusal(
  reason: 'SerializationError' | 'MessageBodyTooLarge' | 'ValidationError',
  sentence: string,
): RabbitmqError {
  return new RabbitmqError(`the message cannot be sent: ${sentence}`, {
    reason: MessageFailureReason[reason],
    retryable: false,
  });
}
