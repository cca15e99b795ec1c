import {
  ConfigurationError,
  type OptionTable,
  type TlsOptions,
  flag,
  oneOf,
  readOptions,
  tlsOptions,
  wholeNumber,
} from '@whizbang/core/transport';
import { type BrokerAddress, parseAddress } from './address.js';

/**
 * Options of the RabbitMQ transport, given in code or (all but `tls`) in the query of the connection string:
 * `amqp://user:password@host:5672/vhost?queueType=classic&heartbeatSeconds=5`. What is given in code wins.
 */
export interface RabbitmqTransportOptions {
  /**
   * Type of the queues this transport creates. Default: `quorum`, or `classic` where the broker has no quorum queues.
   * Named explicitly, there is no falling back.
   */
  readonly queueType?: 'quorum' | 'classic';
  /** Create exchanges, queues and bindings that are missing. False only checks that they exist. Default true. */
  readonly declare?: boolean;
  /** Report a message that no queue is bound for as failed, instead of letting the broker drop it. Default true. */
  readonly mandatory?: boolean;
  /** A dead peer is noticed after two to three times this many seconds. 1 to 600, default 10. */
  readonly heartbeatSeconds?: number;
  /** How long a sent message may stay unconfirmed before it counts as failed, in ms. Default 30,000. */
  readonly confirmTimeoutMs?: number;
  /** How long connecting, handshake included, may take, in ms. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /**
   * The largest body in bytes. Default: what a RabbitMQ of the connected version accepts unless configured otherwise
   * (16 MiB from 4.0 on, 128 MiB before); lowered to the broker's real limit when it refuses a message for its size.
   */
  readonly maxMessageBytes?: number;
  /** First pause before reconnecting, in ms; doubles up to `reconnectMaxDelayMs`, with 20 % jitter. Default 200. */
  readonly reconnectDelayMs?: number;
  /** Longest pause before reconnecting, in ms. Default 30,000. */
  readonly reconnectMaxDelayMs?: number;
  /** Most messages of one destination that are sent and not yet confirmed. Default 1,000. */
  readonly publishWindow?: number;
  /** Certificates for `amqps:`. Only in code. */
  readonly tls?: TlsOptions;
}

/** The options with their defaults, and where the broker is. */
export interface RabbitmqSettings extends BrokerAddress {
  readonly queueType: 'quorum' | 'classic' | undefined;
  readonly declare: boolean;
  readonly mandatory: boolean;
  readonly heartbeatSeconds: number;
  readonly confirmTimeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly maxMessageBytes: number | undefined;
  readonly reconnectDelayMs: number;
  readonly reconnectMaxDelayMs: number;
  readonly publishWindow: number;
  readonly tls: TlsOptions;
}

const hour = 3_600_000;

/** Every option once: how it is read, and its default. */
const optionTable = {
  queueType: [oneOf('quorum', 'classic'), undefined],
  declare: [flag, true],
  mandatory: [flag, true],
  heartbeatSeconds: [wholeNumber(1, 600), 10],
  confirmTimeoutMs: [wholeNumber(1, hour), 30_000],
  connectTimeoutMs: [wholeNumber(1, hour), 10_000],
  // RabbitMQ clamps its own limit to 512 MiB.
  maxMessageBytes: [wholeNumber(1, 536_870_912), undefined],
  reconnectDelayMs: [wholeNumber(1, hour), 200],
  reconnectMaxDelayMs: [wholeNumber(1, hour), 30_000],
  publishWindow: [wholeNumber(1, 100_000), 1000],
  tls: [tlsOptions, {}],
} as const satisfies OptionTable<RabbitmqTransportOptions>;

/**
 * Reads connection string and options.
 * @throws ConfigurationError that names everything wrong with them at once, and never shows the password.
 */
export function resolveSettings(
  connectionString: string,
  options: Readonly<Record<string, unknown>> = {},
): RabbitmqSettings {
  const violations: string[] = [];
  const { address, query } = parseAddress(connectionString, violations);
  const resolved = readOptions<RabbitmqTransportOptions>(
    optionTable,
    { connectionString: query, code: options },
    violations,
  );
  const { reconnectDelayMs, reconnectMaxDelayMs } = resolved as unknown as RabbitmqSettings;
  if (reconnectDelayMs > reconnectMaxDelayMs) {
    violations.push('reconnectDelayMs: must not be above reconnectMaxDelayMs');
  }
  if (violations.length > 0 || address === undefined) {
    throw new ConfigurationError(`options of the RabbitMQ transport: ${violations.join('; ')}`);
  }
  return { ...address, ...(resolved as unknown as Omit<RabbitmqSettings, keyof BrokerAddress>) };
}
