import type { ServiceBusMessage } from '@azure/service-bus';
import type { OutgoingMessage } from '@whizbang/core/transport';
import { classification } from './classification.js';
import { type Classification, ServicebusError } from './errors.js';
import { encodeProperties } from './headers.js';

// Limits of the broker: all properties of a message together, one of them, and ids, in bytes and in characters.
const maxPropertiesBytes = 64 * 1024;
const maxPropertyBytes = 32 * 1024;
const maxIdLength = 128;
const maxEntityNameLength = 260;
const loneSurrogate = /\p{Surrogate}/u;

/**
 * The message as the SDK takes it, or why it can never be sent. It is found here because the broker would refuse the whole
 * batch, and for some of it end the link.
 *
 * @param sessionId `undefined` where sessions are not used.
 * @param maxMessageBytes Largest body in bytes, when an option says it; what the broker announces is checked while sending.
 */
export function encodeMessage(
  message: OutgoingMessage,
  sessionId: string | undefined,
  maxMessageBytes: number | undefined,
): ServiceBusMessage | ServicebusError {
  const { body, messageId, messageType, destination, attributes } = message;
  if (!Buffer.isBuffer(body)) return refusal(classification.notEncodable, 'the body is not a Buffer');
  if (maxMessageBytes !== undefined && body.length > maxMessageBytes) {
    return refusal(
      classification.messageSize,
      `the body has ${body.length} bytes, and the limit is ${maxMessageBytes}`,
    );
  }
  const wrong =
    entityNameProblem(destination) ??
    idProblem('message id', messageId) ??
    (sessionId === undefined ? undefined : idProblem('session id', sessionId));
  if (wrong !== undefined) return refusal(classification.tooLong, wrong);
  const applicationProperties = encodeProperties(message);
  const problem = propertiesProblem(applicationProperties);
  if (problem !== undefined) return problem;
  return {
    // The caller may use its buffer again as soon as it is told the outcome, and the SDK encodes before it sends.
    body,
    messageId,
    subject: messageType,
    contentType: attributes['datacontenttype'] ?? 'application/json',
    applicationProperties,
    ...(sessionId === undefined ? undefined : { sessionId }),
  };
}

function propertiesProblem(properties: Readonly<Record<string, unknown>>): ServicebusError | undefined {
  let bytes = 0;
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value !== 'string') return refusal(classification.refused, `header "${name}" is not a string`);
    if (loneSurrogate.test(value) || loneSurrogate.test(name)) {
      return refusal(classification.refused, `header "${name}" holds half a surrogate pair, which UTF-8 cannot carry`);
    }
    const own = Buffer.byteLength(name) + Buffer.byteLength(value);
    if (own > maxPropertyBytes) {
      const sentence = `header "${name.slice(0, 40)}" has ${own} bytes, and the broker takes ${maxPropertyBytes}`;
      return refusal(classification.messageSize, sentence);
    }
    bytes += own;
  }
  if (bytes <= maxPropertiesBytes) return undefined;
  return refusal(
    classification.messageSize,
    `headers and attributes have ${bytes} bytes, and the broker takes ${maxPropertiesBytes}`,
  );
}

function idProblem(what: string, value: string): string | undefined {
  if (value.length >= 1 && value.length <= maxIdLength) return undefined;
  return `the ${what} has ${value.length} characters, and the broker takes 1 to ${maxIdLength}`;
}

/** What is wrong with the name of a topic or queue. */
export function entityNameProblem(name: string): string | undefined {
  if (name.length < 1 || name.length > maxEntityNameLength) {
    return `the name of a destination must have 1 to ${maxEntityNameLength} characters, and "${name.slice(0, 40)}…" has ${name.length}`;
  }
  if (/^[\w./~-]+$/.test(name) && !/^\/|\/$/.test(name)) return undefined;
  return `destination "${name.slice(0, 100)}" has characters other than letters, digits, and . - _ / in between`;
}

function refusal(because: Classification, sentence: string): ServicebusError {
  return new ServicebusError(`the message cannot be sent: ${sentence}`, because);
}
