import type pg from 'pg';
import type { Logger } from './contract/logger.js';
import type { Transport } from './contract/transport.js';
import type { Database } from './database/pool.js';
import type { SchemaName } from './database/schema-name.js';
import { Dispatcher } from './dispatcher/dispatcher.js';
import type { PublishInTransaction } from './dispatcher/handle-unit.js';
import type { HandlerRegistry } from './dispatcher/handler-registry.js';
import { maskSecrets } from './errors/mask-secrets.js';
import { InboxStore } from './inbox/inbox-store.js';
import { Heartbeat } from './maintenance/heartbeat.js';
import { libraryVersion } from './options/library-version.js';
import type { ResolvedOptions } from './options/whizbang-options.js';
import type { OutboxStore } from './outbox/outbox-store.js';
import { Publisher } from './publisher/publisher.js';
import { Receiver } from './receiver/receiver.js';
import { settlesWithin } from './runtime/clock.js';
import type { InstanceIdentity } from './runtime/instance-identity.js';
import { observeBacklog, readBacklog } from './telemetry/backlog-gauges.js';
import type { Instruments } from './telemetry/instruments.js';
import { type DoorbellChannel, DoorbellListener } from './wakeups/doorbell-listener.js';
import { DoorbellStore } from './wakeups/doorbell-store.js';
import { Sleeper } from './wakeups/sleeper.js';

interface WorkersSettings {
  readonly options: ResolvedOptions;
  readonly database: Database;
  readonly schema: SchemaName;
  readonly transport: Transport;
  readonly logger: Logger;
  readonly outbox: OutboxStore;
  readonly handlers: HandlerRegistry;
  readonly identity: InstanceIdentity;
  readonly instruments: Instruments;
  readonly publish: PublishInTransaction;
}

// Connections of the pool that handlers may not take: the publisher's, the dispatcher's and the receiver's exchanges.
const reservedConnections = 3;

/** Everything of a service that runs in the background. */
export class Workers {
  readonly #settings: WorkersSettings;
  readonly #listener: DoorbellListener | undefined;
  readonly #heartbeat: Heartbeat;
  readonly #publisher: Publisher | undefined;
  readonly #receiver: Receiver | undefined;
  readonly #dispatcher: Dispatcher | undefined;
  #gauges: { stop(): void } | undefined;
  #began = false;
  #stopping = false;

  constructor(settings: WorkersSettings) {
    this.#settings = settings;
    const { options, database, schema, logger, identity, transport, instruments, handlers } = settings;
    const sleepers = { outbox: this.#sleeper('outbox'), inbox: this.#sleeper('inbox') };
    this.#listener = options.wakeups.listen
      ? new DoorbellListener({
          connectionString: listenTarget(options),
          schema,
          logger,
          onRing: (channel) => sleepers[channel].ring(),
        })
      : undefined;
    this.#heartbeat = new Heartbeat({ pool: database.pool, schema, service: options.service, identity, logger });
    const shared = { identity, instruments, logger, leaseSeconds: options.leaseSeconds };
    this.#publisher = options.publisher.enabled
      ? new Publisher({
          ...shared,
          ...options.publisher,
          service: options.service,
          store: settings.outbox,
          transport,
          sleeper: sleepers.outbox,
        })
      : undefined;
    const inbox = new InboxStore(database.pool, schema);
    const hasHandlers = handlers.size > 0;
    this.#dispatcher =
      (options.dispatcher.enabled ?? hasHandlers)
        ? new Dispatcher({
            ...shared,
            ...options.dispatcher,
            concurrency: this.#concurrency(),
            pool: database.pool,
            store: inbox,
            handlers,
            sleeper: sleepers.inbox,
            publish: settings.publish,
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
            generation: options.generation ?? libraryVersion,
            bindings: handlers.bindings(),
            isHandled: (messageType) => handlers.get(messageType) !== undefined,
            onStored: () => this.#dispatcher?.wake(),
          })
        : undefined;
  }

  async start(): Promise<void> {
    const { transport, logger, database, schema } = this.#settings;
    this.#began = true;
    await this.#heartbeat.start();
    this.#listener?.start();
    await transport.connect({ logger, onReadyChange: (ready, cause) => this.#onReadyChange(ready, cause) });
    this.#publisher?.start();
    this.#dispatcher?.start();
    await this.#receiver?.start();
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
    ]);
    await this.#listener?.stop();
    await this.#heartbeat.stop();
    return unpublished + unhandled;
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

  #sleeper(channel: DoorbellChannel): Sleeper {
    const { options, database, schema, identity, logger } = this.#settings;
    return new Sleeper({
      channel,
      store: new DoorbellStore(database.pool, schema),
      holder: () => identity.current,
      listening: () => this.#listener?.healthy ?? false,
      safetyPollMs: options.wakeups.safetyPollMs,
      fallbackPollMs: options.wakeups.fallbackPollMs,
      logger,
    });
  }

  // A handler holds its connection while it may need the others to go on: handlers may never take the whole pool.
  #concurrency(): number {
    const { options, database, logger } = this.#settings;
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
  return typeof options.database === 'string' ? options.database : options.database.options;
}
