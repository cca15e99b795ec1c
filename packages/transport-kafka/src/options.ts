import {
  ConfigurationError,
  type OptionReader,
  type OptionTable,
  type TlsOptions,
  flag,
  oneOf,
  readOptions,
  tlsOptions,
  wholeNumber,
} from '@whizbang/core/transport';
import { type BrokerAddress, parseAddress } from './address.js';

export type SaslMechanism = 'plain' | 'scram-sha-256' | 'scram-sha-512';

/**
 * Options of the Kafka transport, given in code or (all but `tls`) in the query of the connection string:
 * `kafka://user:password@host:9092,host2:9092?partitions=12&saslMechanism=scram-sha-512`. What is given in code wins.
 */
export interface KafkaTransportOptions {
  /** Create topics that are missing. False refuses them. Default true. */
  readonly declare?: boolean;
  /**
   * Partitions of the topics this transport creates; -1 leaves it to the broker. It is the largest number of instances of a
   * service that receive at the same time, and changing it later moves streams between partitions. Default 6.
   */
  readonly partitions?: number;
  /** Copies of each partition of the topics this transport creates; -1 (the default) leaves it to the broker. */
  readonly replicationFactor?: number;
  /**
   * The largest body in bytes. Default: what fits into a record batch of `maxBatchBytes` with 16 KiB of headers beside it,
   * 1,032,204.
   */
  readonly maxMessageBytes?: number;
  /**
   * The largest record batch in bytes, which the broker's `message.max.bytes` and the topic's `max.message.bytes` limit.
   * Default: theirs, 1,048,588.
   */
  readonly maxBatchBytes?: number;
  /** How long the broker may take to answer a request, in ms; a message unanswered for so long has failed. Default 30,000. */
  readonly requestTimeoutMs?: number;
  /** How long connecting, login included, may take, in ms. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** An instance that has died keeps its partitions for so long, in ms. The broker allows 6,000 to 1,800,000. Default 10,000. */
  readonly sessionTimeoutMs?: number;
  /** First pause before reconnecting, in ms; doubles up to `reconnectMaxDelayMs`, with 20 % jitter. Default 200. */
  readonly reconnectDelayMs?: number;
  /** Longest pause before reconnecting, in ms. Default 30,000. */
  readonly reconnectMaxDelayMs?: number;
  /** How the user name and password of the connection string are given to the broker. Default `plain`. */
  readonly saslMechanism?: SaslMechanism;
  /** What the brokers call us in their logs and quotas. Default `whizbang`. */
  readonly clientId?: string;
  /** Where a service begins that has never received from a topic: with what comes from then on, or with all there is. Default `latest`. */
  readonly startFrom?: 'latest' | 'earliest';
  /** Certificates for `kafkas:`. Only in code. */
  readonly tls?: TlsOptions;
}

/** The options with their defaults, and where the brokers are. */
export interface KafkaSettings extends BrokerAddress {
  readonly declare: boolean;
  readonly partitions: number;
  readonly replicationFactor: number;
  readonly maxMessageBytes: number;
  readonly maxBatchBytes: number;
  readonly requestTimeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly sessionTimeoutMs: number;
  readonly reconnectDelayMs: number;
  readonly reconnectMaxDelayMs: number;
  readonly saslMechanism: SaslMechanism;
  readonly clientId: string;
  readonly startFrom: 'latest' | 'earliest';
  readonly tls: TlsOptions;
}

const countOrBrokers =
  (most: number): OptionReader<number> =>
  (value) => {
    if (value === -1 || value === '-1') return -1;
    try {
      return wholeNumber(1, most)(value);
    } catch (error) {
      throw new Error(`${(error as Error).message}, or -1 for the broker's default`, { cause: error });
    }
  };

const name: OptionReader<string> = (value) => {
  if (typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= 255) return value;
  throw new Error('must be a text of 1 to 255 bytes');
};

const hour = 3_600_000;
const headerRoom = 16_384;

/** Every option once: how it is read, and its default. */
const optionTable = {
  declare: [flag, true],
  partitions: [countOrBrokers(10_000), 6],
  replicationFactor: [countOrBrokers(100), -1],
  maxMessageBytes: [wholeNumber(1, 2 ** 30), undefined],
  // kafkajs reads sizes as 32 bits with a sign.
  maxBatchBytes: [wholeNumber(1024, 2 ** 30), 1_048_588],
  requestTimeoutMs: [wholeNumber(1, hour), 30_000],
  connectTimeoutMs: [wholeNumber(1, hour), 10_000],
  sessionTimeoutMs: [wholeNumber(1000, hour), 10_000],
  reconnectDelayMs: [wholeNumber(1, hour), 200],
  reconnectMaxDelayMs: [wholeNumber(1, hour), 30_000],
  saslMechanism: [oneOf('plain', 'scram-sha-256', 'scram-sha-512'), 'plain'],
  clientId: [name, 'whizbang'],
  startFrom: [oneOf('latest', 'earliest'), 'latest'],
  tls: [tlsOptions, {}],
} as const satisfies OptionTable<KafkaTransportOptions>;

/**
 * Reads connection string and options.
 * @throws ConfigurationError that names everything wrong with them at once, and never shows the password.
 */
export function resolveSettings(
  connectionString: string,
  options: Readonly<Record<string, unknown>> = {},
): KafkaSettings {
  const violations: string[] = [];
  const { address, query } = parseAddress(connectionString, violations);
  const resolved = readOptions<KafkaTransportOptions>(
    optionTable,
    { connectionString: query, code: options },
    violations,
  );
  const settings = resolved as unknown as Omit<KafkaSettings, keyof BrokerAddress>;
  if (settings.reconnectDelayMs > settings.reconnectMaxDelayMs) {
    violations.push('reconnectDelayMs: must not be above reconnectMaxDelayMs');
  }
  const maxMessageBytes = settings.maxMessageBytes ?? Math.max(1, settings.maxBatchBytes - headerRoom);
  if (maxMessageBytes > settings.maxBatchBytes) violations.push('maxMessageBytes: must not be above maxBatchBytes');
  if (violations.length > 0 || address === undefined) {
    throw new ConfigurationError(`options of the Kafka transport: ${violations.join('; ')}`);
  }
  return { ...address, ...settings, maxMessageBytes };
}
