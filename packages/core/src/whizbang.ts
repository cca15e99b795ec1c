import type pg from 'pg';
import type { Logger } from './contract/logger.js';
import type { MessageContext, PublishOptions } from './contract/message-context.js';
import type { MessageDefinition, PayloadOf } from './contract/message-definition.js';
import type { Transaction } from './contract/transaction.js';
import type { Transport } from './contract/transport.js';
import { boundedPool } from './database/bounded-pool.js';
import { checkSchema } from './database/check-schema.js';
import { explainDatabaseError } from './database/database-error.js';
import { type MigrateResult, migrate } from './database/migrate.js';
import type { Database } from './database/pool.js';
import { beginReadCommitted } from './database/read-committed.js';
import type { SchemaName } from './database/schema-name.js';
import { workerPools } from './database/worker-pools.js';
import { DeadLetterOperations } from './dead-letters/dead-letter-operations.js';
import { type BatchHandler, type Handler, HandlerRegistry } from './dispatcher/handler-registry.js';
import { ConfigurationError, StateError } from './errors/whizbang-error.js';
import { type Explanation, explainMessage } from './operations/explain.js';
import { type ServiceStatus, readStatus } from './operations/service-status.js';
import { libraryVersion } from './options/library-version.js';
import type { ResolvedOptions } from './options/whizbang-options.js';
import { checkTransaction } from './outbox/check-transaction.js';
import { type Cause, writeMessage } from './outbox/message-writer.js';
import { OutboxStore } from './outbox/outbox-store.js';
import { settlesWithin } from './runtime/clock.js';
import { InstanceIdentity } from './runtime/instance-identity.js';
import { type Backlog, readBacklog } from './telemetry/backlog-gauges.js';
import { type DeadLetterCounters, DeadLetterMetrics } from './telemetry/dead-letter-metrics.js';
import { Instruments, type WhizbangCounters } from './telemetry/instruments.js';
import { Workers } from './workers.js';

/** What `stop()` could not finish. */
export interface StopReport {
  /** Rows that are still leased: a handler ignored its signal, or the database was away. They come back when the lease ends. */
  readonly unfinished: number;
}

// What a statement of the workers may take: half of a lease, so that what was claimed has time left. A statement that walks
// over many rows, a purge or a new generation, gets more.
const leastDeadlineMs = 5_000;
const patienceMs = 600_000;

type State = 'created' | 'starting' | 'started' | 'stopping' | 'stopped';

/**
 * One service: it publishes through its outbox and handles through its inbox. Made by {@link createWhizbang}.
 */
export class Whizbang implements AsyncDisposable {
  readonly #options: ResolvedOptions;
  readonly #database: Database;
  readonly #schema: SchemaName;
  readonly #transport: Transport;
  readonly #logger: Logger;
  /** For single statements; those of the workers have a pool of their own. */
  readonly #pool: pg.Pool;
  readonly #deadlineMs: number;
  readonly #outbox: OutboxStore;
  readonly #handlers = new HandlerRegistry();
  readonly #instruments = new Instruments();
  readonly #deadLetterMetrics = new DeadLetterMetrics();
  readonly #identity = new InstanceIdentity();
  /** What operators do with dead letters. */
  readonly deadLetters: DeadLetterOperations;
  #workers: Workers | undefined;
  #state: State = 'created';
  #starting: Promise<void> | undefined;
  #stopping: Promise<StopReport> | undefined;

  /** @internal Use {@link createWhizbang}. */
  constructor(parts: {
    options: ResolvedOptions;
    database: Database;
    schema: SchemaName;
    transport: Transport;
    logger: Logger;
  }) {
    this.#options = parts.options;
    this.#database = parts.database;
    this.#schema = parts.schema;
    this.#transport = parts.transport;
    this.#logger = parts.logger;
    this.#deadlineMs = Math.max(leastDeadlineMs, (parts.options.leaseSeconds * 1000) / 2);
    this.#pool = boundedPool(parts.database.pool, this.#deadlineMs);
    this.#outbox = new OutboxStore(this.#pool, parts.schema);
    const patient = boundedPool(parts.database.pool, patienceMs, { readCommitted: true });
    this.deadLetters = new DeadLetterOperations(patient, parts.schema, () => this.#workers?.scanDeadLetters());
  }

  /** The id under which this process holds leases at the moment. */
  get instanceId(): string {
    return this.#identity.current;
  }

  /** What this process has done so far. */
  get counters(): Readonly<WhizbangCounters> {
    return { ...this.#instruments.counters };
  }

  /** What the recovery worker of this process has done so far. */
  get deadLetterCounters(): Readonly<DeadLetterCounters> {
    return { ...this.#deadLetterMetrics.counters };
  }

  /** True while the broker can be expected to take messages. */
  get brokerReady(): boolean {
    return this.#transport.ready();
  }

  /**
   * Stores a message in the caller's transaction; it is published after the commit, and never when the transaction is
   * rolled back.
   *
   * @param tx - a `pg` client inside BEGIN, or anything with `query(text, values)` that runs on the transaction's connection
   * @returns the message's id
   * @throws ConfigurationError when `tx` is known to be no transaction: a pool, or a client outside of BEGIN and COMMIT
   * @throws MessageRefusedError before anything reaches the database, when the payload breaks its schema or cannot be carried
   * unchanged; the transaction can go on
   */
  async publish<Definition extends MessageDefinition>(
    tx: Transaction,
    message: Definition,
    payload: PayloadOf<Definition>,
    options: PublishOptions = {},
  ): Promise<{ messageId: string }> {
    checkTransaction(tx, message.type);
    return this.#publishIn(tx, message, payload, options, undefined);
  }

  /**
   * Stores many messages of one type in the caller's transaction, in their order, in one round trip.
   *
   * @throws MessageRefusedError for the first that cannot be published; then none is stored
   */
  async publishMany<Definition extends MessageDefinition>(
    tx: Transaction,
    message: Definition,
    payloads: readonly PayloadOf<Definition>[],
    options: Omit<PublishOptions, 'messageId'> = {},
  ): Promise<{ messageIds: readonly string[] }> {
    checkTransaction(tx, message.type);
    const rows = [];
    for (const payload of payloads) {
      rows.push(await writeMessage(message, payload, options, undefined));
    }
    if (rows.length > 0) {
      await this.#outbox.store(tx, rows).catch((error: unknown) => {
        throw explainDatabaseError(error, this.#schema.name) ?? error;
      });
      this.#instruments.add('stored', rows.length, { message_type: message.type });
    }
    return { messageIds: rows.map((row) => row.messageId) };
  }

  /**
   * Publishes in a transaction of its own, for messages that belong to no change of yours. It is durable when the promise
   * resolves.
   *
   * @throws StateError after `stop()`
   */
  async publishNow<Definition extends MessageDefinition>(
    message: Definition,
    payload: PayloadOf<Definition>,
    options: PublishOptions = {},
  ): Promise<{ messageId: string }> {
    if (this.#stopping !== undefined) {
      throw new StateError(`publishNow('${message.type}') was called after stop().`);
    }
    if (message.serializeStreams !== true) {
      return this.#publishIn(this.#pool, message, payload, options, undefined);
    }
    const client = await this.#pool.connect();
    try {
      await client.query(beginReadCommitted());
      const result = await this.#publishIn(client, message, payload, options, undefined);
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      throw error;
    } finally {
      client.release();
    }
  }

  /**
   * Registers the handler of a message. Each message runs in a transaction of its own, `context.tx`: what the handler
   * writes and publishes through it commits together with the completion of the message. When it throws, all of it is
   * rolled back and the message is tried again later.
   *
   * @throws ConfigurationError when the message has a handler already
   * @throws StateError after `start()`
   */
  handle<Definition extends MessageDefinition>(message: Definition, handler: Handler<Definition>): this {
    checkHandler(message, handler);
    this.#register(message, 1, ([first]) => {
      if (first !== undefined) {
        return handler(first.payload, first.context);
      }
      return undefined;
    });
    return this;
  }

  /**
   * Registers a handler that takes many messages of one type in one transaction, for work that is cheaper in bulk. Messages
   * of one stream are in order. When it throws, its messages are tried one by one, so that the one at fault is found.
   *
   * @param options.maxBatch - messages in one call, at the most. Default 100
   */
  handleBatch<Definition extends MessageDefinition>(
    message: Definition,
    handler: BatchHandler<Definition>,
    options: { readonly maxBatch?: number } = {},
  ): this {
    checkHandler(message, handler);
    const maxBatch = options.maxBatch ?? 100;
    if (!Number.isInteger(maxBatch) || maxBatch < 1) {
      throw new ConfigurationError(`maxBatch of '${message.type}' must be a whole number of at least 1.`);
    }
    this.#register(message, maxBatch, (messages) => handler(messages));
    return this;
  }

  /** Creates or updates the tables; see {@link migrate}. Needs a role that may create tables; running does not. */
  async migrate(): Promise<MigrateResult> {
    return migrate({ database: this.#database.pool, schema: this.#schema.name, logger: this.#logger });
  }

  /**
   * Starts publishing, receiving and handling. A broker that is away is waited for, in the background; a database that is
   * away is an error.
   *
   * @throws DatabaseUnavailableError, SchemaError with one sentence that says what to do
   */
  async start(): Promise<void> {
    if (this.#state !== 'created') {
      throw new StateError(
        `start() was called when the service was ${this.#state}; make a new one with createWhizbang.`,
      );
    }
    this.#state = 'starting';
    this.#starting = this.#start();
    try {
      await this.#starting;
    } catch (error) {
      await this.stop();
      throw explainDatabaseError(error, this.#schema.name) ?? error;
    }
  }

  /**
   * Stops intake, lets work in hand finish up to `stopTimeoutMs`, then aborts it, releases what is left with its attempts
   * given back, and closes what was opened. Afterwards no timer, socket or connection of Whizbang's is left. May be called
   * at any time, and more than once.
   */
  async stop(): Promise<StopReport> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Where a message is, and why it has not gone on, in one answer. */
  async explain(messageId: string): Promise<Explanation> {
    return explainMessage(this.#pool, this.#schema, messageId, this.#breakers());
  }

  /** How the service stands; costs the same whatever waits. */
  async status(): Promise<ServiceStatus> {
    return {
      ...(await readStatus(this.#pool, this.#schema)),
      wakeupsHealthy: this.#workers?.wakeupsHealthy ?? false,
      brokerReady: this.#transport.ready(),
      elected: this.#workers?.elected ?? false,
      breakers: this.#breakers(),
    };
  }

  /** What waits in this service's tables. */
  async backlog(): Promise<Backlog> {
    return readBacklog(this.#pool, this.#schema);
  }

  #breakers(): ServiceStatus['breakers'] {
    const breakers = this.#workers?.breakers;
    return { outbox: breakers?.outbox.states() ?? [], inbox: breakers?.inbox.states() ?? [] };
  }

  async #start(): Promise<void> {
    await checkSchema(this.#pool, this.#schema, this.#logger);
    const { pool, patientPool } = await workerPools(this.#database.pool, {
      deadlineMs: this.#deadlineMs,
      patienceMs,
      logger: this.#logger,
    });
    if (this.#stopping !== undefined) {
      throw new StateError('stop() was called before start() was done.');
    }
    this.#workers = new Workers({
      options: this.#options,
      database: { ...this.#database, pool },
      patientPool,
      schema: this.#schema,
      transport: this.#transport,
      logger: this.#logger,
      outbox: new OutboxStore(pool, this.#schema),
      handlers: this.#handlers,
      identity: this.#identity,
      instruments: this.#instruments,
      publish: async (tx, message, payload, options, cause) => {
        // A handler that has ended may still have something running that publishes.
        checkTransaction(tx, message.type);
        return this.#publishIn(tx, message, payload, options, cause);
      },
      deadLetterMetrics: this.#deadLetterMetrics,
      generation: this.#options.generation ?? libraryVersion,
    });
    await this.#workers.start();
    this.#state = 'started';
  }

  async #stop(): Promise<StopReport> {
    this.#state = 'stopping';
    // What begins while everything else is being stopped would run for ever.
    await settlesWithin(this.#starting ?? Promise.resolve(), this.#options.stopTimeoutMs);
    const unfinished = (await this.#workers?.stop(this.#options.stopTimeoutMs)) ?? 0;
    await this.#transport.close();
    // A pool ends when its last client comes back; the one of a handler that ignores its signal is not waited for.
    await settlesWithin(this.#database.close(), 1_000);
    this.#state = 'stopped';
    if (unfinished > 0) {
      this.#logger.warn(
        { unfinished },
        'Stopped with messages unfinished; they are taken up again when their lease ends',
      );
    }
    return { unfinished };
  }

  #register(
    definition: MessageDefinition,
    maxBatch: number,
    run: (messages: readonly { payload: unknown; context: MessageContext }[]) => Promise<void> | void,
  ): void {
    if (this.#state !== 'created') {
      throw new StateError(
        `The handler of '${definition.type}' was registered after start(); register handlers before.`,
      );
    }
    this.#handlers.register({ definition, maxBatch, run });
  }

  async #publishIn(
    tx: Transaction,
    message: MessageDefinition,
    payload: unknown,
    options: PublishOptions,
    cause: Cause | undefined,
  ): Promise<{ messageId: string }> {
    const row = await writeMessage(message, payload, options, cause);
    try {
      await this.#outbox.store(tx, [row]);
    } catch (error) {
      throw explainDatabaseError(error, this.#schema.name) ?? error;
    }
    this.#instruments.add('stored', 1, { message_type: message.type });
    return { messageId: row.messageId };
  }
}

// What is wrong would else show at the first message only, and send it and those behind it to the dead letters.
function checkHandler(message: MessageDefinition, handler: unknown): void {
  if (typeof message?.type !== 'string' || typeof message.schema?.['~standard']?.validate !== 'function') {
    throw new ConfigurationError('A handler needs a message first, as defineMessage makes it.');
  }
  if (typeof handler !== 'function') {
    const is = handler === null ? 'null' : typeof handler;
    throw new ConfigurationError(`The handler of '${message.type}' must be a function; this is ${is}.`);
  }
}
