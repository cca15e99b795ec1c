import { ConfigurationError } from '@whizbang/core/transport';
import { type BrokerAddress, parseAddress } from './address.js';

/** Certificates for `amqps:`, as of `tls.connect`. */
export interface TlsOptions {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly passphrase?: string;
  /** The name that the broker's certificate must carry. Default: the host of the connection string. */
  readonly servername?: string;
  /** False accepts any certificate. Default true. */
  readonly rejectUnauthorized?: boolean;
}

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

/** Reads a value; throws the sentence that says what it must be. */
type Reader<T> = (value: unknown) => T;

const flag: Reader<boolean> = (value) => {
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw new Error('must be true or false');
};

const whole =
  (least: number, most: number): Reader<number> =>
  (value) => {
    const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
    if (typeof number === 'number' && Number.isInteger(number) && number >= least && number <= most) return number;
    throw new Error(`must be a whole number from ${least} to ${most}`);
  };

const queueType: Reader<'quorum' | 'classic'> = (value) => {
  if (value === 'quorum' || value === 'classic') return value;
  throw new Error('must be "quorum" or "classic"');
};

const tls: Reader<TlsOptions> = (value) => {
  if (typeof value !== 'object' || value === null) throw new Error('must be an object, given in code');
  const known = ['ca', 'cert', 'key', 'passphrase', 'servername', 'rejectUnauthorized'];
  const unknown = Object.keys(value).filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`has no option ${unknown.join(', ')}; there are ${known.join(', ')}`);
  return value;
};

const hour = 3_600_000;

/** Every option once: how it is read, and its default. */
const optionTable = {
  queueType: [queueType, undefined],
  declare: [flag, true],
  mandatory: [flag, true],
  heartbeatSeconds: [whole(1, 600), 10],
  confirmTimeoutMs: [whole(1, hour), 30_000],
  connectTimeoutMs: [whole(1, hour), 10_000],
  // RabbitMQ clamps its own limit to 512 MiB.
  maxMessageBytes: [whole(1, 536_870_912), undefined],
  reconnectDelayMs: [whole(1, hour), 200],
  reconnectMaxDelayMs: [whole(1, hour), 30_000],
  publishWindow: [whole(1, 100_000), 1000],
  tls: [tls, {}],
} as const satisfies { readonly [name in keyof RabbitmqTransportOptions]-?: readonly [Reader<unknown>, unknown] };

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
  const resolved: Record<string, unknown> = {};
  for (const [name, [, byDefault]] of Object.entries(optionTable)) resolved[name] = byDefault;

  const given: [name: string, value: unknown, path: string][] = [
    ...query.map(([name, value]): [string, unknown, string] => [name, value, `connection string: ${name}`]),
    ...Object.entries(options).map(([name, value]): [string, unknown, string] => [name, value, name]),
  ];
  for (const [name, value, path] of given) {
    if (value === undefined) continue;
    const entry = Object.hasOwn(optionTable, name) ? optionTable[name as keyof typeof optionTable] : undefined;
    if (entry === undefined) {
      violations.push(`${path}: there is no such option; there are ${Object.keys(optionTable).join(', ')}`);
      continue;
    }
    try {
      resolved[name] = entry[0](value);
    } catch (error) {
      violations.push(`${path}: ${(error as Error).message}`);
    }
  }
  const { reconnectDelayMs, reconnectMaxDelayMs } = resolved as unknown as RabbitmqSettings;
  if (reconnectDelayMs > reconnectMaxDelayMs) {
    violations.push('reconnectDelayMs: must not be above reconnectMaxDelayMs');
  }
  if (violations.length > 0 || address === undefined) {
    throw new ConfigurationError(`options of the RabbitMQ transport: ${violations.join('; ')}`);
  }
  return { ...address, ...(resolved as unknown as Omit<RabbitmqSettings, keyof BrokerAddress>) };
}
