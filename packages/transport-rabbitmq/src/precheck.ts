import type { OutgoingMessage } from '@whizbang/core/transport';
import type { Options } from 'amqplib';
import { byName } from './classification.js';
import { type Classification, RabbitmqError } from './errors.js';
import { encodeHeaders, timestampOf } from './headers.js';

// amqplib encodes the header table into a buffer of this size and throws beyond it.
const maxHeaderTableBytes = 65_536;
// AMQP "short strings" carry their length in one byte.
const maxShortStringBytes = 255;
// Of the frame that carries the properties: 8 bytes around it, 14 before the properties, 1 delivery mode, 8 timestamp, and
// a length byte for each of the three short strings.
const frameOverheadBytes = 34;
const loneSurrogate = /\p{Surrogate}/u;

/**
 * The AMQP properties of a message, or the error that the broker or amqplib would answer it with. It is found here because
 * there it closes the channel, or for large headers the connection, and every message behind it goes down too.
 * The destination is not looked at: its exchange exists when this is asked.
 *
 * @param maxMessageBytes Largest body in bytes.
 * @param frameMax Largest frame in bytes, as negotiated with the broker.
 */
export function checkMessage(
  message: OutgoingMessage,
  maxMessageBytes: number,
  frameMax: number,
): Options.Publish | RabbitmqError {
  const { body, messageId, messageType, attributes } = message;
  if (!Buffer.isBuffer(body)) return refusal(byName.notABuffer, 'the body is not a Buffer');
  if (body.length > maxMessageBytes) {
    return refusal(byName.bodyTooLarge, `the body has ${body.length} bytes, and the broker takes ${maxMessageBytes}`);
  }
  const contentType = attributes['datacontenttype'] ?? 'application/json';
  const tooLong =
    shortStringProblem('message type', messageType) ??
    shortStringProblem('message id', messageId) ??
    shortStringProblem('content type', contentType);
  if (tooLong !== undefined) return tooLong;

  const headers = encodeHeaders(message);
  const headerBytes = tableBytes(headers);
  if (headerBytes instanceof RabbitmqError) return headerBytes;
  const propertyBytes = 3 * maxShortStringBytes;
  const room = Math.min(maxHeaderTableBytes, frameMax - frameOverheadBytes - propertyBytes);
  if (headerBytes > room) {
    return refusal(
      byName.headersTooLarge,
      `the headers have ${headerBytes} bytes, and ${room} fit into one AMQP frame`,
    );
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

/** The encoded size of the headers, or what is wrong with one of them. */
function tableBytes(headers: Readonly<Record<string, unknown>>): number | RabbitmqError {
  let bytes = 4;
  for (const name in headers) {
    const value = headers[name];
    if (typeof value !== 'string') return refusal(byName.wrongField, `header "${name}" is not a string`);
    const nameBytes = Buffer.byteLength(name);
    const valueBytes = Buffer.byteLength(value);
    if (nameBytes > maxShortStringBytes) {
      const sentence = `a header name has ${nameBytes} bytes, and AMQP allows ${maxShortStringBytes}`;
      return refusal(byName.wrongField, `${sentence}: ${name.slice(0, 40)}…`);
    }
    // Plain ASCII, the usual case, has as many bytes as characters and needs no closer look.
    if (
      (valueBytes !== value.length && loneSurrogate.test(value)) ||
      (nameBytes !== name.length && loneSurrogate.test(name))
    ) {
      return refusal(byName.wrongField, `header "${name}" holds half a surrogate pair, which UTF-8 cannot carry`);
    }
    // Length and name, type tag, length and value.
    bytes += 6 + nameBytes + valueBytes;
  }
  return bytes;
}

function shortStringProblem(what: string, value: string): RabbitmqError | undefined {
  // No character takes more than three bytes.
  if (value.length <= maxShortStringBytes / 3) return undefined;
  const bytes = Buffer.byteLength(value);
  if (bytes <= maxShortStringBytes) return undefined;
  return refusal(byName.wrongField, `the ${what} has ${bytes} bytes, and AMQP allows ${maxShortStringBytes}`);
}

function refusal(row: Classification, sentence: string): RabbitmqError {
  return new RabbitmqError(`the message cannot be sent: ${sentence}`, row);
}
