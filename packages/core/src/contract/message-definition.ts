import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { StreamFailurePolicy } from './work.js';
import { ConfigurationError } from '../errors/whizbang-error.js';

/** A schema of any library that speaks Standard Schema: zod, valibot, arktype and others. */
export type MessageSchema = StandardSchemaV1;

export interface MessageOptions<Schema extends MessageSchema> {
  /** Checks a payload in `publish`, before anything reaches the database, and again before the handler. */
  readonly schema: Schema;
  /** Where the message goes: a RabbitMQ exchange, a Kafka topic, a Service Bus topic. */
  readonly destination: string;
  // As a method, so that a definition of one payload is a definition of any: `handle` and `publish` take them all.
  /**
   * The key of the stream whose messages stay in order. A UUID is used as it is, any other text becomes a UUIDv5.
   * `null` or leaving it out: no order.
   */
  stream?(payload: StandardSchemaV1.InferInput<Schema>): string | null;
  /**
   * Two transactions that write to one stream at the same time may commit in the other order than they wrote. `true` makes
   * the second wait in `publish` for the first to end (a transaction-level advisory lock per stream). Default `false`.
   */
  readonly serializeStreams?: boolean;
  /** What the failure of such a message means for the later ones of its stream. Default `block`. */
  readonly streamFailurePolicy?: StreamFailurePolicy;
}

/** A type of message, as `defineMessage` makes it. */
export interface MessageDefinition<Schema extends MessageSchema = MessageSchema> extends MessageOptions<Schema> {
  /** CloudEvents `type`, and the routing key where the broker has one. */
  readonly type: string;
}

/** What `publish` takes for a message. */
export type PayloadOf<Definition extends MessageDefinition> = StandardSchemaV1.InferInput<Definition['schema']>;

/** What a handler gets: the payload after its schema. */
export type HandledPayloadOf<Definition extends MessageDefinition> = StandardSchemaV1.InferOutput<Definition['schema']>;

// The strictest rules of the three brokers, so that changing the broker never changes what is a valid name:
// Kafka topics take [a-zA-Z0-9._-] and 249 characters, a Service Bus subscription 50 characters.
const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** Says what is wrong with a name that brokers will see, or returns `undefined`. */
export function problemOfName(name: unknown, maxLength: number): string | undefined {
  if (typeof name !== 'string' || !namePattern.test(name)) {
    return `must be letters, digits, '.', '_' or '-', starting with a letter or digit`;
  }
  return name.length > maxLength ? `must be ${maxLength} characters at the most` : undefined;
}

/**
 * Defines a type of message; publisher and handler share the result.
 *
 * @param type - its name on the wire, for example `orders.order-placed`; at most 200 characters
 * @throws ConfigurationError when the name or the destination cannot be used on every broker
 */
export function defineMessage<Schema extends MessageSchema>(
  type: string,
  options: MessageOptions<Schema>,
): MessageDefinition<Schema> {
  const problems = [
    ['type', problemOfName(type, 200)],
    ['destination', problemOfName(options.destination, 200)],
    [
      'schema',
      typeof options.schema?.['~standard']?.validate === 'function'
        ? undefined
        : 'must be a Standard Schema, for example of zod',
    ],
    [
      'stream',
      options.stream === undefined || typeof options.stream === 'function'
        ? undefined
        : 'must be a function of the payload',
    ],
  ].filter(([, problem]) => problem !== undefined);
  if (problems.length > 0) {
    const list = problems.map(([path, problem]) => `${path} ${problem}`).join('; ');
    throw new ConfigurationError(`Message '${String(type)}' cannot be defined: ${list}.`);
  }
  // Named one by one: what an instance of a class has from its class is not copied by a spread, nor is its `this`.
  const { schema, destination, serializeStreams, streamFailurePolicy } = options;
  return Object.freeze({
    type,
    schema,
    destination,
    ...(options.stream === undefined ? {} : { stream: options.stream.bind(options) }),
    ...(serializeStreams === undefined ? {} : { serializeStreams }),
    ...(streamFailurePolicy === undefined ? {} : { streamFailurePolicy }),
  });
}

/** What a schema finds wrong, in words: `lines.0.count: must be a number`. */
export function describeSchemaIssue(issue: StandardSchemaV1.Issue): string {
  const path = (issue.path ?? [])
    .map((segment) => String(typeof segment === 'object' ? segment.key : segment))
    .join('.');
  return path === '' ? issue.message : `${path}: ${issue.message}`;
}
