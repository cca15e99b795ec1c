import type pg from 'pg';
import type { Logger } from './contract/logger.js';
import type { Transport } from './contract/transport.js';
import type { Database } from './database/pool.js';
import type { SchemaName } from './database/schema-name.js';
import { DeadLetterRecoveryWorker } from './dead-letters/dead-letter-recovery-worker.js';
import { DeadLetterStore } from './dead-letters/dead-letter-store.js';
import { DefaultDeadLetterRecoveryPolicy } from './dead-letters/default-recovery-policy.js';
import { Dispatcher } from './dispatcher/dispatcher.js';
import type { PublishInTransaction } from './dispatcher/handle-unit.js';
import type { HandlerRegistry } from './dispatcher/handler-registry.js';
import { maskSecrets } from './errors/mask-secrets.js';
import { ConfigurationError } from './errors/whizbang-error.js';
import { Breakers } from './failure/breakers.js';
import { FailureJudge } from './failure/failure-judge.js';
import { InboxStore } from './inbox/inbox-store.js';
import { Duty, type DutyName } from './maintenance/duty.js';
import { Heartbeat } from './maintenance/heartbeat.js';
import { MaintenanceWorker } from './maintenance/maintenance-worker.js';
import type { ResolvedOptions } from './options/whizbang-options.js';
import type { OutboxStore } from './outbox/outbox-store.js';
import { Publisher } from './publisher/publisher.js';
import { Receiver } from './receiver/receiver.js';
import { settlesWithin } from './runtime/clock.js';
import type { InstanceIdentity } from './runtime/instance-identity.js';
import { observeBacklog, readBacklog } from './telemetry/backlog-gauges.js';
import type { DeadLetterMetrics } from './telemetry/dead-letter-metrics.js';
import type { Instruments } from './telemetry/instruments.js';
import { type DoorbellChannel, DoorbellListener } from './wakeups/doorbell-listener.js';
import { DoorbellStore } from './wakeups/doorbell-store.js';
import { Sleeper } from './wakeups/sleeper.js';

interface WorkersSettings {
  readonly options: ResolvedOptions;
  readonly database: Database;
  /** For statements that walk over many rows. */
  readonly patientPool: pg.Pool;
  readonly schema: SchemaName;
  readonly transport: Transport;
  readonly logger: Logger;
  readonly outbox: OutboxStore;
  readonly handlers: HandlerRegistry;
  readonly identity: InstanceIdentity;
  readonly instruments: Instruments;
  readonly publish: PublishInTransaction;
  readonly deadLetterMetrics: DeadLetterMetrics;
  readonly generation: string;
}

// Connections of the pool that handlers may not take: the publisher's, the dispatcher's and the receiver's exchanges.
const reservedConnections = 3;
// What a database that does not answer any more keeps from ending is not waited for any longer.
const farewellMs = 3_000;

/** Everything of a service that runs in the background. */
export class Workers {
  readonly #settings: WorkersSettings;
  readonly #listener: DoorbellListener | undefined;
  readonly #heartbeat: Heartbeat;
  readonly #publisher: Publisher | undefined;
  readonly #receiver: Receiver | undefined;
  readonly #dispatcher: Dispatcher | undefined;
  readonly #duties: readonly Duty[];
  readonly #recovery: DeadLetterRecoveryWorker | undefined;
  readonly #maintenance: MaintenanceWorker | undefined;
  readonly breakers: { readonly outbox: Breakers; readonly inbox: Breakers };
  #gauges: { stop(): void } | undefined;
  #began = false;
  #stopping = false;

  constructor(settings: WorkersSettings) {
    this.#settings = settings;
    const { options, database, patientPool, schema, logger, identity, transport, instruments, handlers } = settings;
    const { safetyPollMs, fallbackPollMs } = options.wakeups;
    const scanMs = options.deadLetters.scanIntervalMinutes * 60_000;
    const sleepers = {
      outbox: this.#sleeper('outbox', safetyPollMs, fallbackPollMs),
      inbox: this.#sleeper('inbox', safetyPollMs, fallbackPollMs),
      // One instance looks for dead letters: without notifications once a second is enough.
      deadletter: this.#sleeper('deadletter', scanMs, Math.min(scanMs, Math.max(fallbackPollMs, 1_000))),
    };
    this.breakers = {
      outbox: new Breakers('destination', options.failures.breaker, logger),
      inbox: new Breakers('messageType', options.failures.breaker, logger),
    };
    this.#listener = options.wakeups.listen
      ? new DoorbellListener({
          connectionString: listenTarget(options),
          schema,
          logger,
          onRing: (channel) => {
            sleepers[channel].hear();
            if (channel === 'deadletter') {
              // Who gives the duty up rings here.
              for (const duty of this.#duties) {
                duty.wake();
              }
            }
          },
        })
      : undefined;
    const shared = { identity, instruments, logger, leaseSeconds: options.leaseSeconds };
    this.#publisher = options.publisher.enabled
      ? new Publisher({
          ...shared,
          ...options.publisher,
          service: options.service,
          store: settings.outbox,
          transport,
          sleeper: sleepers.outbox,
          judge: this.#judge(options.publisher.maxOutboxAttempts),
          breakers: this.breakers.outbox,
          onDeadLetter: (ids) => this.#onDeadLetter('wh_outbox', ids.length),
        })
      : undefined;
    const inbox = new InboxStore(database.pool, schema);
    const hasHandlers = handlers.size > 0;
    const handles = options.dispatcher.enabled ?? hasHandlers;
    this.#dispatcher = handles
      ? new Dispatcher({
          ...shared,
          ...options.dispatcher,
          concurrency: this.#concurrency(),
          pool: database.pool,
          store: inbox,
          handlers,
          sleeper: sleepers.inbox,
          publish: settings.publish,
          judge: this.#judge(options.dispatcher.maxInboxAttempts),
          breakers: this.breakers.inbox,
          onDeadLetter: (ids) => this.#onDeadLetter('wh_inbox', ids.length),
        })
      : undefined;
    this.#receiver =
      (options.receiver.enabled ?? hasHandlers)
        ? new Receiver({
            ...shared,
            ...options.receiver,
            service: options.service,
            store: inbox,
            transport,
            generation: settings.generation,
            bindings: handlers.bindings(),
            isHandled: (messageType) => handlers.get(messageType) !== undefined,
            onStored: () => this.#dispatcher?.wake(),
          })
        : undefined;
    this.#heartbeat = new Heartbeat({
      pool: database.pool,
      schema,
      service: options.service,
      identity,
      logger,
      parts: { publishes: options.publisher.enabled, handles },
    });
    const duty = (name: DutyName) =>
      new Duty({
        name,
        pool: database.pool,
        schema,
        identity,
        logger,
        onElected: () => (name === 'recovery' ? this.#recovery : this.#maintenance)?.wake(),
      });
    const recovering = options.deadLetters.enabled ? duty('recovery') : undefined;
    const maintaining = options.maintenance.enabled ? duty('maintenance') : undefined;
    this.#duties = [recovering, maintaining].filter((one) => one !== undefined);
    this.#recovery = recovering
      ? new DeadLetterRecoveryWorker({
          ...options.deadLetters,
          store: new DeadLetterStore(patientPool, schema),
          policy: options.deadLetters.policy ?? new DefaultDeadLetterRecoveryPolicy(),
          metrics: settings.deadLetterMetrics,
          generation: settings.generation,
          logger,
          elected: () => recovering.elected,
          sleeper: sleepers.deadletter,
        })
      : undefined;
    this.#maintenance = maintaining
      ? new MaintenanceWorker({
          ...options.maintenance,
          pool: patientPool,
          schema,
          logger,
          elected: () => maintaining.elected,
        })
      : undefined;
  }

  get wakeupsHealthy(): boolean {
    return this.#listener?.healthy ?? false;
  }

  get elected(): boolean {
    return this.#duties.some((duty) => duty.elected);
  }

  /** Has the recovery worker look now. */
  scanDeadLetters(): void {
    this.#recovery?.wake();
  }

  async start(): Promise<void> {
    const { transport, logger, database, schema } = this.#settings;
    this.#began = true;
    await this.#heartbeat.start();
    this.#listener?.start();
    await transport.connect({ logger, onReadyChange: (ready, cause) => this.#onReadyChange(ready, cause) });
    this.#publisher?.start(this.#receiver?.established);
    this.#dispatcher?.start();
    await this.#receiver?.start();
    this.#recovery?.start();
    this.#maintenance?.start();
    for (const duty of this.#duties) {
      duty.start();
    }
    this.#gauges = observeBacklog(() => readBacklog(database.pool, schema));
  }

  /** Returns how many rows are still leased. */
  async stop(timeoutMs: number): Promise<number> {
    if (!this.#began) {
      return 0;
    }
    this.#stopping = true;
    this.#gauges?.stop();
    const [unpublished, unhandled] = await Promise.all([
      this.#publisher?.stop(timeoutMs) ?? 0,
      this.#dispatcher?.stop(timeoutMs) ?? 0,
      settlesWithin(this.#receiver?.stop() ?? Promise.resolve(), timeoutMs),
      settlesWithin(this.#recovery?.stop() ?? Promise.resolve(), farewellMs),
      settlesWithin(this.#maintenance?.stop() ?? Promise.resolve(), farewellMs),
    ]);
    await settlesWithin(Promise.all(this.#duties.map((duty) => duty.stop())), farewellMs);
    await this.#listener?.stop();
    await settlesWithin(this.#heartbeat.stop(), farewellMs);
    return unpublished + unhandled;
  }

  #onDeadLetter(sourceTable: string, count: number): void {
    this.#settings.deadLetterMetrics.added(sourceTable, count);
    // The elected instance, when it is this one, need not wait for a notification.
    this.#recovery?.wake();
  }

  #onReadyChange(ready: boolean, cause: Error | undefined): void {
    const { logger, transport } = this.#settings;
    if (this.#stopping) {
      // Closing the transport ourselves is nothing to warn of.
      return;
    }
    if (ready) {
      logger.info({ transport: transport.name }, 'The broker is ready');
    } else {
      logger.warn(
        { transport: transport.name, error: cause === undefined ? undefined : maskSecrets(cause.message) },
        'The broker is not ready; messages wait in the outbox',
      );
    }
    this.#publisher?.wake();
  }

  #judge(maxAttempts: number | null): FailureJudge {
    const { options, handlers, generation } = this.#settings;
    const { baseSeconds, maxFactor, jitter, deadLetterPermanent } = options.failures;
    return new FailureJudge({ maxAttempts, baseSeconds, maxFactor, jitter, generation }, deadLetterPermanent, [
      ...options.messages,
      ...handlers.definitions(),
    ]);
  }

  #sleeper(channel: DoorbellChannel, safetyPollMs: number, fallbackPollMs: number): Sleeper {
    const { database, schema, identity, logger } = this.#settings;
    return new Sleeper({
      channel,
      store: new DoorbellStore(database.pool, schema),
      holder: () => identity.current,
      listening: () => this.#listener?.healthy ?? false,
      safetyPollMs,
      fallbackPollMs,
      logger,
    });
  }

  // A handler holds its connection while it may need the others to go on: handlers may never take the whole pool.
  #concurrency(): number {
    const { options, database, logger } = this.#settings;
    if (database.size < 2) {
      throw new ConfigurationError(
        'A service with handlers needs a pool of at least 2 connections: while a handler has one, its lease is renewed on another.',
      );
    }
    const most = Math.max(1, database.size - reservedConnections);
    if (options.dispatcher.concurrency > most) {
      logger.warn(
        { concurrency: options.dispatcher.concurrency, poolSize: database.size, reduced: most },
        'The pool is too small for the concurrency of handlers, which is reduced',
      );
    }
    return Math.min(options.dispatcher.concurrency, most);
  }
}

function listenTarget(options: ResolvedOptions): string | pg.ClientConfig {
  if (options.listenDatabase !== undefined) {
    return options.listenDatabase;
  }
  if (typeof options.database === 'string') {
    return options.database;
  }
  // A pool hides its password from enumeration: a copy of its options would log in without.
  const { options: settings } = options.database;
  return settings.password === undefined ? settings : { ...settings, password: settings.password };
}
