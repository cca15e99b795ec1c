import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { migrate } from '@whizbang/core';
import pg from 'pg';

import { type PostgresServer, startPostgres } from '../../fixtures/index.js';
import { TcpGate } from '../../fixtures/network/tcp-gate.js';
import { installAudit } from './audit.js';
import type { FaultBroker, FaultBrokerKind } from './fault-broker.js';
import { OrderStep, accountCount, orderCount } from './order-step.js';
import type { ParticipantSettings, ProducerSettings } from './participant-settings.js';
import { Participant } from './participant.js';
import type { Random } from './random.js';

/** Short, so that much can go wrong in little time; how each is chosen does not depend on the seed. */
export const leaseSeconds = 3;
const intervals = {
  leaseSeconds,
  stopTimeoutMs: 5_000,
  failures: { baseSeconds: 0.05, breaker: { initialCooldownMs: 200, maxCooldownMs: 1_000 } },
  // Nobody is to bring them back: where a dead letter is, is the question.
  deadLetters: { enabled: false },
  wakeups: { safetyPollMs: 1_000, fallbackPollMs: 100 },
} as const;

/** Everything that is there for faults to be done to: databases, broker, and the processes that use them through gates. */
export class FaultScene implements AsyncDisposable {
  readonly postgres: PostgresServer;
  /** Past all gates. */
  readonly orders: pg.Pool;
  readonly shipping: pg.Pool;
  readonly broker: FaultBroker | undefined;
  readonly folder: string;
  readonly participants: Participant[] = [];
  readonly #databases: { readonly orders: string; readonly shipping: string };
  readonly #gates: TcpGate[] = [];

  private constructor(parts: {
    postgres: PostgresServer;
    databases: { orders: string; shipping: string };
    broker: FaultBroker | undefined;
    folder: string;
  }) {
    this.postgres = parts.postgres;
    this.broker = parts.broker;
    this.folder = parts.folder;
    this.#databases = parts.databases;
    this.orders = readersPool(parts.databases.orders);
    this.shipping = readersPool(parts.databases.shipping);
  }

  /** Resolves when all have started. */
  static async start(kind: FaultBrokerKind, random: Random): Promise<FaultScene> {
    const [postgres, broker, folder] = await Promise.all([
      startPostgres({ private: true, settings: { fsync: 'off', deadlock_timeout: '200ms', max_connections: 120 } }),
      kind.start?.(OrderStep.destination),
      mkdtemp(join(tmpdir(), 'whizbang-faults-')),
    ]);
    const [orders, shipping] = [await postgres.createDatabase('orders'), await postgres.createDatabase('shipping')];
    const scene = new FaultScene({
      postgres,
      broker,
      folder,
      databases: { orders: orders.url, shipping: shipping.url },
    });
    try {
      await scene.#prepare();
      const retainCompleted = random.percent(50);
      if (broker === undefined) await scene.#addInProcess(retainCompleted);
      else await scene.#addProcesses(broker, retainCompleted);
      for (let producer = 0; producer < 2; producer += 1) await scene.#addProducer(producer, random.fork());
      // Those who receive first: what is published to nobody is lost with some brokers.
      for (const role of ['consumer', 'publisher', 'producer'] as const) await scene.launch(role);
      return scene;
    } catch (error) {
      await scene[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Of a role, or all. */
  those(role: Participant['role']): Participant[] {
    return this.participants.filter((participant) => participant.role === role);
  }

  async launch(role: Participant['role']): Promise<void> {
    for (const participant of this.those(role)) participant.launch();
    await Promise.all(this.those(role).map((participant) => participant.started()));
  }

  /** Connections through all gates. */
  get connections(): number {
    return this.#gates.reduce((sum, gate) => sum + gate.connections, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.participants.map((participant) => participant.kill().catch(() => undefined)));
    await Promise.all(this.#gates.map((gate) => gate.close()));
    await Promise.all([this.orders.end(), this.shipping.end()]);
    await this.broker?.stop();
    await this.postgres.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  async #prepare(): Promise<void> {
    const { orders, shipping } = this;
    await Promise.all([migrate({ database: orders }), migrate({ database: shipping })]);
    await Promise.all([installAudit(orders), installAudit(shipping)]);
    await orders.query(`
      create table streams (name text primary key, last integer not null default 0) with (fillfactor = 50);
      insert into streams (name) select 'order-' || i from generate_series(1, ${orderCount}) i;
      create table committed (message_id uuid not null, stream text not null, number integer not null,
                              at timestamptz not null default clock_timestamp())`);
    await shipping.query(`
      create table handled (position bigint generated always as identity, message_id uuid not null, stream text not null,
                            number integer not null, attempt integer not null, rolled_back boolean not null);
      create table accounts (account integer primary key, steps integer not null default 0) with (fillfactor = 50);
      insert into accounts (account) select generate_series(0, ${accountCount - 1})`);
  }

  async #addProcesses(broker: FaultBroker, retainCompleted: boolean): Promise<void> {
    for (let index = 0; index < 2; index += 1) {
      const gates = await this.#databaseGates();
      const { url, gate } = await broker.way();
      this.#gates.push(gate);
      this.#add(`publisher-${index}`, 'publisher', { ...gates, broker: gate }, true, [
        { options: this.#ordersOptions(gates, url, retainCompleted), handles: false },
      ]);
    }
    for (let index = 0; index < 3; index += 1) {
      const gates = await this.#databaseGates();
      const { url, gate } = await broker.way();
      this.#gates.push(gate);
      // One of them with a pool of its user's.
      this.#add(`consumer-${index}`, 'consumer', { ...gates, broker: gate }, true, [
        {
          options: this.#shippingOptions(gates, url, retainCompleted),
          handles: true,
          ...(index === 0 ? { userPool: 7 } : {}),
        },
      ]);
    }
  }

  /** What the in-process broker has taken is in its process: that one may be stopped for a while, and must not be killed. */
  async #addInProcess(retainCompleted: boolean): Promise<void> {
    const gates = await this.#databaseGates();
    this.#add('both', 'publisher', gates, false, [
      { options: this.#ordersOptions(gates, 'memory:', retainCompleted), handles: false },
      { options: this.#shippingOptions(gates, 'memory:', retainCompleted), handles: true, userPool: 7 },
    ]);
    for (let index = 0; index < 2; index += 1) {
      const own = await this.#databaseGates();
      const options = this.#shippingOptions(own, 'memory:', retainCompleted);
      // They handle what the other has received.
      this.#add(`consumer-${index}`, 'consumer', own, true, [
        { options: { ...options, receiver: { enabled: false } }, handles: true },
      ]);
    }
  }

  async #addProducer(index: number, random: Random): Promise<void> {
    const gates = await this.#databaseGates();
    this.participants.push(
      new Participant({
        name: `producer-${index}`,
        role: 'producer',
        gates,
        mayDie: true,
        program: 'faults/order-producer',
        environment: () => ({
          PRODUCER: JSON.stringify({
            database: through(gates.database, this.#databases.orders),
            seed: random.between(0, 0x7fff_ffff),
            pauseMs: 100,
          } satisfies ProducerSettings),
        }),
      }),
    );
  }

  #add(
    name: string,
    role: Participant['role'],
    gates: Participant['gates'],
    mayDie: boolean,
    services: ParticipantSettings['services'],
  ): void {
    const settings: ParticipantSettings = { services, diary: join(this.folder, `${name}.diary`) };
    this.participants.push(
      new Participant({
        name,
        role,
        gates,
        mayDie,
        program: 'faults/participant',
        environment: () => ({ PARTICIPANT: JSON.stringify(settings) }),
      }),
    );
  }

  #ordersOptions(gates: Gates, broker: string, retainCompleted: boolean): ServiceOptions {
    return {
      ...this.#options(gates, this.#databases.orders, broker),
      service: 'orders',
      publisher: { batchSize: 50, retainCompleted },
    };
  }

  #shippingOptions(gates: Gates, broker: string, retainCompleted: boolean): ServiceOptions {
    return {
      ...this.#options(gates, this.#databases.shipping, broker),
      service: 'shipping',
      publisher: { enabled: false },
      receiver: { batchSize: 50, prefetch: 100 },
      dispatcher: { concurrency: 4, batchSize: 40, retainCompleted },
    };
  }

  #options(gates: Gates, database: string, broker: string): Omit<ServiceOptions, 'service'> {
    return {
      ...intervals,
      database: through(gates.database, database),
      listenDatabase: through(gates.listen, database),
      broker,
      ...(this.broker === undefined ? {} : { brokerOptions: this.broker.brokerOptions }),
    };
  }

  async #databaseGates(): Promise<Gates> {
    const { hostname, port } = new URL(this.postgres.url);
    const target = { host: hostname, port: Number(port) };
    const gates = { database: new TcpGate(target), listen: new TcpGate(target) };
    this.#gates.push(gates.database, gates.listen);
    await Promise.all([gates.database.open(), gates.listen.open()]);
    return gates;
  }
}

type Gates = Pick<Participant['gates'], 'database' | 'listen'>;
type ServiceOptions = ParticipantSettings['services'][number]['options'];

function through(gate: TcpGate, url: string): string {
  const changed = new URL(url);
  changed.hostname = '127.0.0.1';
  changed.port = String(gate.port);
  return changed.href;
}

function readersPool(connectionString: string): pg.Pool {
  const pool = new pg.Pool({
    connectionString,
    max: 6,
    application_name: readersName,
    idleTimeoutMillis: 1_000,
    // Of no time: the faults of others are not its own.
    options: '-c statement_timeout=0',
  });
  // Cut when the server is restarted.
  pool.on('error', () => undefined);
  return pool;
}

/** By which the connections of the tests themselves are known. */
export const readersName = 'reader-of-faults';
