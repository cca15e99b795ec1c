import { Backoff, FailureLog, type Logger, pause, settlesWithin } from '@whizbang/core/transport';
import { type ChannelModel, type SocketOptions, connect } from 'amqplib';
import { byName } from './classification.js';
import { RabbitmqError, explainConnectFailure } from './errors.js';
import type { RabbitmqSettings } from './options.js';

/** An open connection. A new one is made after each loss; nothing of the old one may be used on it. */
export interface LiveConnection {
  readonly model: ChannelModel;
  /** Largest frame in bytes, as negotiated. */
  readonly frameMax: number;
  /** `3.10.8`, as the broker announces it. */
  readonly serverVersion: string;
  /** Set when the connection has ended. */
  readonly endedBy: Error | undefined;
  /** Resolves with the cause when the connection has ended. */
  readonly ended: Promise<Error>;
  /** Ends it: politely, and after `ms` by closing the socket. */
  close(ms: number): Promise<void>;
}

export interface ConnectionListener {
  up(connection: LiveConnection): void;
  /** The connection was lost, or an attempt to make one failed. */
  down(cause: Error): void;
  blocked?(reason: string): void;
  unblocked?(): void;
}

/**
 * Keeps one connection to the broker: makes it again after every loss, with backoff and without end, until `close`.
 * amqplib's own recovery is not used: it brings back connections only, and what hangs on them must be rebuilt in order.
 */
export class ConnectionSupervisor {
  readonly #settings: RabbitmqSettings;
  readonly #role: 'publishing' | 'receiving';
  readonly #listener: ConnectionListener;
  readonly #log: FailureLog;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  #current: LiveConnection | undefined;
  #running: Promise<void> | undefined;

  constructor(
    settings: RabbitmqSettings,
    role: 'publishing' | 'receiving',
    listener: ConnectionListener,
    logger: Logger,
  ) {
    this.#settings = settings;
    this.#role = role;
    this.#listener = listener;
    this.#logger = logger;
    this.#log = new FailureLog(
      logger,
      `the connection to RabbitMQ at ${settings.hostname}:${settings.port} for ${role}`,
    );
  }

  /** Begins connecting. Calling it again does nothing. */
  start(): void {
    this.#running ??= this.#keepConnected();
  }

  /** Ends the connection, or the attempt at one, within `ms`. */
  async close(ms: number): Promise<void> {
    this.#stopping.abort();
    await this.#current?.close(ms);
    await this.#running;
  }

  async #keepConnected(): Promise<void> {
    const { signal } = this.#stopping;
    const backoff = new Backoff(this.#settings.reconnectDelayMs, this.#settings.reconnectMaxDelayMs);
    while (!signal.aborted) {
      try {
        const live = await openConnection(this.#settings, this.#role, this.#listener, signal);
        this.#current = live;
        if (signal.aborted) {
          await live.close(0);
          return;
        }
        const openedAt = performance.now();
        this.#log.succeeded();
        this.#logger.debug({ serverVersion: live.serverVersion }, `connected to RabbitMQ for ${this.#role}`);
        this.#listener.up(live);
        const cause = await live.ended;
        this.#current = undefined;
        if (signal.aborted) return;
        // A broker that accepts and drops connections must not be called at full speed.
        if (performance.now() - openedAt > this.#settings.reconnectMaxDelayMs) backoff.reset();
        this.#log.failed(cause.message);
        this.#listener.down(cause);
      } catch (error) {
        if (signal.aborted) return;
        const sentence = explainConnectFailure(error, this.#settings);
        this.#log.failed(sentence);
        this.#listener.down(new Error(sentence, { cause: error }));
      }
      await pause(backoff.next(), signal);
    }
  }
}

async function openConnection(
  settings: RabbitmqSettings,
  role: string,
  listener: ConnectionListener,
  signal: AbortSignal,
): Promise<LiveConnection> {
  const { protocol, hostname, port, username, password, connectTimeoutMs, heartbeatSeconds } = settings;
  // Aborting it destroys the socket, in every state of the connection. amqplib ends sockets but does not destroy them,
  // so one whose peer is gone would stay open for minutes.
  const socket = new AbortController();
  const giveUp = (): void => socket.abort();
  signal.addEventListener('abort', giveUp);
  let timedOut = false;
  const deadline = setTimeout(() => {
    timedOut = true;
    socket.abort();
  }, connectTimeoutMs);
  try {
    const socketOptions: SocketOptions & { signal: AbortSignal } = {
      ...settings.tls,
      // With Nagle's algorithm, bodies of 4 KB that are awaited one by one go at 22 a second instead of 2,174.
      noDelay: true,
      signal: socket.signal,
      clientProperties: { connection_name: `whizbang ${role}` },
    };
    const model = await connect(
      {
        protocol,
        hostname,
        port,
        username,
        password,
        vhost: encodeURIComponent(settings.vhost),
        heartbeat: heartbeatSeconds,
      },
      socketOptions,
    );
    const live = liveConnection(model, socket, listener);
    // A connection that the broker closed in the same breath has had its 'close' before anyone could listen.
    const probe = await model.createChannel();
    probe.on('error', () => undefined);
    // When the connection goes in this moment, the client never answers the call (17 to 23 of 400 closes while connecting).
    await Promise.race([probe.close(), live.ended]);
    return live;
  } catch (error) {
    socket.abort();
    if (!timedOut) throw error;
    throw new RabbitmqError(`no answer within ${connectTimeoutMs} ms`, byName.noHandshake);
  } finally {
    clearTimeout(deadline);
    signal.removeEventListener('abort', giveUp);
  }
}

function liveConnection(model: ChannelModel, socket: AbortController, listener: ConnectionListener): LiveConnection {
  let endedBy: Error | undefined;
  let lastError: Error | undefined;
  const ended = new Promise<Error>((resolve) => {
    model.on('error', (error) => (lastError = error));
    model.on('close', (error) => {
      endedBy = lastError ?? error ?? new Error('closed by this side');
      resolve(endedBy);
      // Not at once: the answer to the broker's own close is on its way out.
      setImmediate(() => socket.abort());
    });
  });
  model.on('blocked', (reason) => listener.blocked?.(reason));
  model.on('unblocked', () => listener.unblocked?.());
  const { frameMax } = model.connection as { frameMax?: number };
  return {
    model,
    frameMax: frameMax ?? 4096,
    serverVersion: model.connection.serverProperties.version,
    get endedBy() {
      return endedBy;
    },
    ended,
    async close(ms) {
      await settlesWithin(
        Promise.resolve().then(() => model.close()),
        ms,
      );
      socket.abort();
      await ended;
    },
  };
}
