import {
  ConfigurationError,
  type OptionReader,
  type OptionTable,
  flag,
  oneOf,
  readOptions,
  wholeNumber,
} from '@whizbang/core/transport';
import { type NamespaceAddress, parseConnectionString } from './connection-string.js';

/** What of a credential is used; those of `@azure/identity` are of this shape. */
export interface TokenCredential {
  getToken(
    scopes: string | string[],
    options?: object,
  ): Promise<{ readonly token: string; readonly expiresOnTimestamp: number } | null>;
}

/**
 * Options of the Azure Service Bus transport, given in code or (all but `credential` and `webSocket`) in the connection string:
 * `Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…;Sessions=false`, or `sb://contoso.servicebus.windows.net?sessions=false`.
 * What is given in code wins.
 */
export interface ServicebusTransportOptions {
  /**
   * What a destination is: a `topic`, of which each service has a subscription, or a `queue`, which one service receives
   * from. Default `topic`.
   */
  readonly entity?: 'topic' | 'queue';
  /**
   * Keep the order of streams by sessions. False sends without session ids, which is much faster with many streams, and
   * leaves streams without order: services must then set `receiver.parallel`. Default true.
   */
  readonly sessions?: boolean;
  /**
   * Create topics, queues, subscriptions and rules that are missing. Where the right to manage is missing, or the
   * administration endpoint out of reach, what exists is used as it is. Default true.
   */
  readonly declare?: boolean;
  /**
   * The largest body in bytes. Default: what the broker announces for the destination (256 KB in the Standard tier). Given
   * above that, topics and queues are created for such messages, which the Premium tier can.
   */
  readonly maxMessageBytes?: number;
  /** How long a send may stay unanswered before it counts as failed, in ms. Default 10,000. */
  readonly sendTimeoutMs?: number;
  /** How long connecting and attaching may take, in ms. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** Most sends of this process that are under way at a time. Default 100. */
  readonly maxConcurrentSends?: number;
  /** Most sessions that one subscription of this process holds at a time. Default 32. */
  readonly maxConcurrentSessions?: number;
  /** So many sessions share the messages that have no stream, since a session subscription takes none without one. Default 16. */
  readonly sharedSessions?: number;
  /** How often locks of messages in hand are renewed, in ms; sooner where the lock is shorter. Default 10,000. */
  readonly lockRenewalMs?: number;
  /**
   * When nothing has arrived for so long, in ms, it is looked whether something should have, and receiving is set up anew.
   * Default 30,000.
   */
  readonly silenceMs?: number;
  /** Ask for duplicate detection, by message id over ten minutes, on topics and queues that are created. Default false. */
  readonly duplicateDetection?: boolean;
  /** First pause before reconnecting, in ms; doubles up to `reconnectMaxDelayMs`, with 20 % jitter. Default 200. */
  readonly reconnectDelayMs?: number;
  /** Longest pause before reconnecting, in ms. Default 30,000. */
  readonly reconnectMaxDelayMs?: number;
  /** How long publishing pauses when the namespace is throttled and the broker does not say how long. Default 10,000. */
  readonly throttlePauseMs?: number;
  /** Where entities are managed, when that is not the host of the namespace: `http://localhost:5300` for the emulator. */
  readonly administrationEndpoint?: string;
  /** For `sb://` connection strings, such as a `DefaultAzureCredential`. Only in code. */
  readonly credential?: TokenCredential;
  /** A WebSocket class, to go through port 443 where 5671 is closed. Only in code. */
  readonly webSocket?: unknown;
}

type Defaulted = 'maxMessageBytes' | 'administrationEndpoint' | 'credential' | 'webSocket';

/** The options with their defaults, and where the namespace is. */
export type ServicebusSettings = NamespaceAddress &
  Required<Omit<ServicebusTransportOptions, Defaulted>> & {
    readonly [name in Defaulted]: ServicebusTransportOptions[name];
  };

const httpUrl: OptionReader<string> = (value) => {
  if (typeof value === 'string' && /^https?:\/\/[^/]+\/?$/.test(value)) return value.replace(/\/$/, '');
  throw new Error('must be like http://localhost:5300');
};

const credential: OptionReader<TokenCredential> = (value) => {
  const { getToken } = (value ?? {}) as Partial<TokenCredential>;
  if (typeof getToken === 'function') return value as TokenCredential;
  throw new Error('must be an object with getToken, given in code');
};

const webSocket: OptionReader<unknown> = (value) => {
  if (typeof value === 'function') return value;
  throw new Error('must be a WebSocket class, given in code');
};

const hour = 3_600_000;

/** Every option once: how it is read, and its default. */
const optionTable = {
  entity: [oneOf('topic', 'queue'), 'topic'],
  sessions: [flag, true],
  declare: [flag, true],
  // 100 MB is the most that the Premium tier takes.
  maxMessageBytes: [wholeNumber(1, 104_857_600), undefined],
  sendTimeoutMs: [wholeNumber(1, hour), 10_000],
  connectTimeoutMs: [wholeNumber(1, hour), 10_000],
  maxConcurrentSends: [wholeNumber(1, 500), 100],
  maxConcurrentSessions: [wholeNumber(1, 1000), 32],
  sharedSessions: [wholeNumber(1, 1000), 16],
  lockRenewalMs: [wholeNumber(100, hour), 10_000],
  silenceMs: [wholeNumber(100, hour), 30_000],
  duplicateDetection: [flag, false],
  reconnectDelayMs: [wholeNumber(1, hour), 200],
  reconnectMaxDelayMs: [wholeNumber(1, hour), 30_000],
  throttlePauseMs: [wholeNumber(1, hour), 10_000],
  administrationEndpoint: [httpUrl, undefined],
  credential: [credential, undefined],
  webSocket: [webSocket, undefined],
} as const satisfies OptionTable<ServicebusTransportOptions>;

/**
 * Reads connection string and options.
 * @throws ConfigurationError that names everything wrong with them at once, and never shows a key.
 */
export function resolveSettings(
  connectionString: string,
  options: Readonly<Record<string, unknown>> = {},
): ServicebusSettings {
  const violations: string[] = [];
  const parsed = parseConnectionString(connectionString, Object.keys(optionTable), violations);
  const resolved = readOptions<ServicebusTransportOptions>(
    optionTable,
    { connectionString: parsed.options, code: options },
    violations,
  );
  const settings = { ...parsed.address, ...resolved } as ServicebusSettings;
  if (settings.reconnectDelayMs > settings.reconnectMaxDelayMs) {
    violations.push('reconnectDelayMs: must not be above reconnectMaxDelayMs');
  }
  if (parsed.address !== undefined) {
    const needsCredential = parsed.address.connectionString === undefined;
    if (needsCredential && settings.credential === undefined && violations.length === 0) {
      violations.push('credential: is needed with an sb:// connection string; give one in code');
    }
    if (!needsCredential && settings.credential !== undefined) {
      violations.push('credential: goes with an sb:// connection string, and this one has a key');
    }
  }
  if (violations.length > 0) {
    throw new ConfigurationError(`options of the Azure Service Bus transport: ${violations.join('; ')}`);
  }
  return settings;
}
