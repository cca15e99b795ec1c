import { type Socket, connect as connectTcp, isIP } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type Logger, settlesWithin, within } from '@whizbang/core/transport';
import kafkajs, { type ISocketFactory, type KafkaConfig } from 'kafkajs';
import { KafkaError, conditionOf } from './errors.js';
import { calmIdleConnections } from './idle-timer.js';
import type { BrokerPool, KafkaBroker } from './kafka-broker.js';
import type { KafkaSettings } from './options.js';
import { withUndecodableBatches } from './undecodable-batches.js';

/** A topic's partitions, in their order, each with the broker that leads it. */
export type Leaders = readonly number[];

/**
 * The connections to one cluster. kafkajs speaks the protocol; retries, regrouping and rejoining are ours, because those of
 * its producer and consumer lose and reorder messages (docs/decisions/0021). Once `lost` has resolved it is of no more use.
 */
export class KafkaClient {
  /** Resolves with the cause when no connection is left, or `abandon` was called without a broker. */
  readonly lost: Promise<Error>;
  #lose: (cause: Error) => void = () => undefined;
  readonly #settings: KafkaSettings;
  readonly #pool: BrokerPool;
  readonly #sockets = new Map<Socket, string>();
  readonly #tolerant = new WeakSet<object>();
  #metadataTurn: Promise<unknown> = Promise.resolve();
  #inFlight = 0;
  #ended: Error | undefined;
  #memberIdGiven: string | undefined;

  constructor(settings: KafkaSettings, logger: Logger) {
    calmIdleConnections();
    this.#settings = settings;
    this.lost = new Promise((resolve) => (this.#lose = resolve));
    this.#pool = brokerPool(settings, logger, (...parameters) => this.#openSocket(...parameters));
  }

  /** Set when it is of no more use. */
  get endedBy(): Error | undefined {
    return this.#ended;
  }

  /** What a coordinator has named us while it still lets us wait for the answer to our joining. */
  get memberIdGiven(): string | undefined {
    return this.#memberIdGiven;
  }

  /** Requests that the broker has not answered. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Connects to the first of the given brokers that answers. */
  async connect(): Promise<void> {
    let failure: unknown;
    for (const _ of this.#settings.brokers) {
      try {
        await this.#inTime(this.#pool.connect(), this.#settings.connectTimeoutMs, 'unreachable');
        return;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /** Whether a broker answers at all. */
  async ping(ms: number): Promise<void> {
    const broker = await this.#inTime(this.#pool.findConnectedBroker(), ms, 'unreachable');
    await this.ask(broker, (asked) => asked.apiVersions(), ms);
  }

  /** Asks about one topic at a time: in an answer about several, one that is missing hides the others. */
  async leaders(topic: string): Promise<Leaders> {
    const turn = this.#metadataTurn.then(async () => {
      const { requestTimeoutMs } = this.#settings;
      await this.#inTime(this.#pool.refreshMetadata([topic]), requestTimeoutMs, 'unansweredInTime');
      const found = this.#pool.metadata?.topicMetadata.find((metadata) => metadata.topic === topic);
      const partitions = [...(found?.partitionMetadata ?? [])].toSorted((a, b) => a.partitionId - b.partitionId);
      if (partitions.length === 0) throw new KafkaError(`topic "${topic}" has no partitions yet`, 'unknownTopic');
      return partitions.map(({ leader }) => leader);
    });
    this.#metadataTurn = turn.catch(() => undefined);
    return turn;
  }

  /** The broker with a number, connected. Metadata of some topic must have been asked for. */
  async broker(nodeId: number): Promise<KafkaBroker> {
    const { connectTimeoutMs } = this.#settings;
    return this.#tolerating(await this.#inTime(this.#pool.findBroker({ nodeId }), connectTimeoutMs, 'unreachable'));
  }

  async anyBroker(): Promise<KafkaBroker> {
    return this.#inTime(this.#pool.findConnectedBroker(), this.#settings.connectTimeoutMs, 'unreachable');
  }

  /** The broker that may change topics. */
  async controller(): Promise<KafkaBroker> {
    // Without a topic that exists, this is the only question whose answer names it.
    await this.#inTime(this.#pool.refreshMetadata([]), this.#settings.requestTimeoutMs, 'unansweredInTime');
    return this.broker(this.#pool.metadata?.controllerId ?? -1);
  }

  async coordinator(groupId: string): Promise<KafkaBroker> {
    const answer = await this.ask(await this.anyBroker(), (broker) =>
      broker.findGroupCoordinator({ groupId, coordinatorType: 0 }),
    );
    return this.broker(answer.coordinator.nodeId);
  }

  /** Runs a request with a deadline. A broker that does not answer in time is hung up on, for the answer may come any time. */
  async ask<T>(
    broker: KafkaBroker,
    request: (broker: KafkaBroker) => Promise<T>,
    ms = this.#settings.requestTimeoutMs,
  ): Promise<T> {
    this.#inFlight += 1;
    try {
      return await this.#inTime(request(broker), ms, 'unansweredInTime');
    } catch (error) {
      if (conditionOf(error) === 'unansweredInTime') this.abandon(error as Error, broker);
      throw error;
    } finally {
      this.#inFlight -= 1;
    }
  }

  /** Hangs up on one broker, or on all. */
  abandon(cause: Error, broker?: KafkaBroker): void {
    const pool = broker?.connectionPool;
    if (pool === undefined) this.#end(cause);
    for (const [socket, place] of this.#sockets) {
      // Without an error, kafkajs would not notice.
      if (pool === undefined || place === `${pool.host}:${pool.port}`) socket.destroy(cause);
    }
  }

  /** Ends all connections: what is unanswered fails. */
  async close(): Promise<void> {
    this.abandon(new KafkaError('closed by this side', 'unreachable'));
    await settlesWithin(this.#pool.disconnect(), 1000);
  }

  #end(cause: Error): void {
    this.#ended ??= cause;
    this.#lose(this.#ended);
  }

  async #inTime<T>(promise: Promise<T>, ms: number, condition: 'unreachable' | 'unansweredInTime'): Promise<T> {
    return within(promise, ms, () => new KafkaError(`no answer within ${ms} ms`, condition));
  }

  #openSocket(...[{ host, port, ssl, onConnect }]: Parameters<ISocketFactory>): Socket {
    if (this.#ended !== undefined) throw this.#ended;
    const socket = ssl
      ? connectTls({ host, port, ...(isIP(host) ? {} : { servername: host }), ...this.#settings.tls }, onConnect)
      : connectTcp({ host, port }, onConnect);
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 30_000);
    let cause: Error | undefined;
    let connected = false;
    this.#sockets.set(socket, `${host}:${port}`);
    socket.once(ssl ? 'secureConnect' : 'connect', () => (connected = true));
    socket.on('error', (error: Error) => {
      cause = error;
    });
    socket.on('close', () => {
      this.#sockets.delete(socket);
      if (connected && this.#sockets.size === 0) this.#end(cause ?? new Error(`${host}:${port} closed the connection`));
    });
    return socket;
  }

  #tolerating(broker: KafkaBroker): KafkaBroker {
    const { connectionPool } = broker;
    if (this.#tolerant.has(connectionPool)) return broker;
    this.#tolerant.add(connectionPool);
    const send = connectionPool.send.bind(connectionPool);
    connectionPool.send = async (request) => {
      try {
        return await send(withUndecodableBatches(request));
      } catch (error) {
        const { name, memberId } = error as { name?: string; memberId?: string };
        if (name === 'KafkaJSMemberIdRequired') this.#memberIdGiven = memberId;
        throw error;
      }
    };
    return broker;
  }
}

/** kafkajs gives its brokers to those who write partition assigners; it has no other door to them. */
function brokerPool(settings: KafkaSettings, logger: Logger, socketFactory: ISocketFactory): BrokerPool {
  let found: BrokerPool | undefined;
  const kafka = new kafkajs.Kafka({
    brokers: [...settings.brokers],
    clientId: settings.clientId,
    ...(settings.secure ? { ssl: { ...settings.tls } } : {}),
    ...sasl(settings),
    connectionTimeout: settings.connectTimeoutMs,
    authenticationTimeout: settings.connectTimeoutMs,
    // Deadlines are ours: kafkajs would look for late answers ten times a second.
    enforceRequestTimeout: false,
    requestTimeout: settings.requestTimeoutMs,
    retry: { retries: 0 },
    socketFactory,
    logLevel: kafkajs.logLevel.WARN,
    logCreator: () => (entry) => {
      const { message, ...fields } = entry.log;
      logger.debug({ ...fields, namespace: entry.namespace }, `kafkajs: ${message}`);
    },
  });
  kafka.consumer({
    groupId: 'none',
    allowAutoTopicCreation: false,
    partitionAssigners: [
      ({ cluster }) => {
        found = (cluster as unknown as { brokerPool?: BrokerPool }).brokerPool;
        return {
          name: 'none',
          version: 0,
          assign: async () => [],
          protocol: () => ({ name: '', metadata: Buffer.of() }),
        };
      },
    ],
  });
  if (typeof found?.findConnectedBroker !== 'function') {
    throw new KafkaError('this version of kafkajs is built differently; install 2.2.4', 'incompatibleBroker');
  }
  return found;
}

function sasl({ saslMechanism: mechanism, username, password }: KafkaSettings): Pick<KafkaConfig, 'sasl'> {
  return username === undefined ? {} : { sasl: { mechanism, username, password } as NonNullable<KafkaConfig['sasl']> };
}
