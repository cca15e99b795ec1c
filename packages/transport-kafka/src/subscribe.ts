import {
  Backoff,
  type DeliveryHandler,
  FailureLog,
  type Logger,
  type SubscriptionRequest,
  type TransportSubscription,
  pause,
  settlesWithin,
} from '@whizbang/core/transport';
import { conditionOf, messageOf } from './errors.js';
import { type GroupPlan, GroupMember, type Membership } from './group-member.js';
import type { HandedOver } from './handed-over.js';
import { KafkaClient, type Leaders } from './kafka-client.js';
import type { KafkaSettings } from './options.js';
import { Receiving } from './receive.js';
import { startPositions } from './start-positions.js';
import { ensureTopic } from './topology.js';

// Topics that are missing and may not be created, and partitions that are added, are looked for this often.
const lookAgainMs = 10_000;
const leaveMs = 1000;

/** One service's group on one or more topics, over all reconnects. */
export class KafkaSubscription implements TransportSubscription {
  readonly established: Promise<void>;
  #establish: () => void = () => undefined;
  readonly #request: SubscriptionRequest;
  readonly #handler: DeliveryHandler;
  readonly #settings: KafkaSettings;
  readonly #logger: Logger;
  readonly #log: FailureLog;
  readonly #handlerLog: FailureLog;
  readonly #handedOver: HandedOver;
  readonly #onClosed: () => void;
  readonly #topics: readonly string[];
  readonly #stopping = new AbortController();
  #client: KafkaClient | undefined;
  #member: GroupMember | undefined;
  #receiving: Promise<void> | undefined;
  #running: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(
    request: SubscriptionRequest,
    handler: DeliveryHandler,
    settings: KafkaSettings,
    logger: Logger,
    handedOver: HandedOver,
    onClosed: () => void,
  ) {
    this.established = new Promise((resolve) => {
      this.#establish = resolve;
    });
    this.#request = request;
    this.#handler = handler;
    this.#settings = settings;
    this.#logger = logger;
    this.#handedOver = handedOver;
    this.#onClosed = onClosed;
    this.#topics = [...new Set(request.bindings.map(({ destination }) => destination))];
    this.#log = new FailureLog(logger, `receiving as group "${request.service}"`);
    this.#handlerLog = new FailureLog(logger, `storing deliveries of group "${request.service}"`);
  }

  /** Begins to receive. Calling it again does nothing. */
  start(): void {
    if (!this.#stopping.signal.aborted) this.#running ??= this.#run();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Ends its connections without waiting for the handler; the group finds out by the session timeout. */
  async hangUp(): Promise<void> {
    this.#stopping.abort();
    await this.#client?.close();
  }

  async #close(): Promise<void> {
    this.#stopping.abort();
    await this.#receiving?.catch(() => undefined);
    if (this.#member !== undefined && this.#client?.endedBy === undefined) {
      const leaving = this.#member.leave(() => this.#connectAnew());
      await settlesWithin(leaving, leaveMs);
    }
    await this.#client?.close();
    await this.#running;
    this.#onClosed();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    const backoff = new Backoff(this.#settings.reconnectDelayMs, this.#settings.reconnectMaxDelayMs);
    while (!signal.aborted) {
      const client = new KafkaClient(this.#settings, this.#logger);
      this.#client = client;
      try {
        await client.connect();
        await this.#receiveThrough(client, () => backoff.reset());
      } catch (error) {
        if (!signal.aborted) this.#log.failed(messageOf(error), { group: this.#request.service });
        if (conditionOf(error) === 'credentialsRefused') backoff.jumpToLongest();
      } finally {
        // While it is closing, `close` has still to leave the group through it.
        if (!signal.aborted) await client.close();
      }
      await pause(backoff.next(), signal);
    }
  }

  async #receiveThrough(client: KafkaClient, works: () => void): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const leaders = await this.#leaders(client);
      const member = (this.#member ??= new GroupMember(client, this.#request.service, this.#settings));
      member.use(client);
      const membership = await member.join([...leaders.keys()], (topics) => this.#plan(client, member, topics), signal);
      const positions = await this.#positions(member, membership);
      if (signal.aborted) return;
      if (leaders.size === this.#topics.length) {
        this.#establish();
        this.#log.succeeded();
      }
      works();
      this.#logger.debug({ group: this.#request.service, assignment: membership.assignment }, 'receiving');
      const over = new AbortController();
      const overSignal = AbortSignal.any([signal, membership.ending, over.signal]);
      void client.lost.then(() => over.abort());
      const watching = this.#watchPartitions(client, leaders, over, overSignal);
      try {
        this.#receiving = new Receiving(
          {
            client,
            request: this.#request,
            handler: this.#handler,
            leaders,
            commit: (offsets) => member.commit(offsets),
            handedOver: this.#handedOver,
            handlerLog: this.#handlerLog,
            over: overSignal,
          },
          positions,
        ).untilOver();
        await this.#receiving;
      } catch (error) {
        // Either the group has gone on without us, and what was handed over is handed over again to whoever has the partition
        // now; or a partition has another leader, and joining again finds out which.
        if (!['membershipLost', 'noLeader'].includes(conditionOf(error))) throw error;
        await pause(100, signal);
      } finally {
        over.abort();
        await watching;
      }
      if (client.endedBy !== undefined && !signal.aborted) throw client.endedBy;
    }
  }

  /** The topics that are there, with their partitions. One that is missing or forbidden does not stop the others. */
  async #leaders(client: KafkaClient): Promise<Map<string, Leaders>> {
    const leaders = new Map<string, Leaders>();
    let failure: Error | undefined;
    for (const topic of this.#topics) {
      try {
        leaders.set(topic, await ensureTopic(client, topic, this.#settings, this.#stopping.signal));
      } catch (error) {
        if (client.endedBy !== undefined) throw error;
        failure = error as Error;
      }
    }
    if (failure === undefined) return leaders;
    if (leaders.size === 0) throw failure;
    this.#log.failed(messageOf(failure), { group: this.#request.service });
    return leaders;
  }

  /** What this member decides for all, when it leads the group. */
  async #plan(client: KafkaClient, member: GroupMember, topics: readonly string[]): Promise<GroupPlan> {
    const leaders = new Map<string, Leaders>();
    for (const topic of topics) {
      // A topic that only this member has not heard of is shared out the next time.
      const found = await client.leaders(topic).catch(() => undefined);
      if (found !== undefined) leaders.set(topic, found);
    }
    if (client.endedBy !== undefined) throw client.endedBy;
    const committed = member.committed.bind(member);
    const starts = await startPositions(client, committed, leaders, this.#settings.startFrom);
    return { partitions: new Map([...leaders].map(([topic, { length }]) => [topic, length])), starts };
  }

  /** Where to go on. What the group had no offset for is committed first, so that it is begun there whatever happens. */
  async #positions(
    member: GroupMember,
    { assignment, starts }: Membership,
  ): Promise<ReadonlyMap<string, Map<number, bigint>>> {
    const positions = new Map<string, Map<number, bigint>>();
    const pinned = [];
    for (const { topic, partitions } of await member.committed(assignment)) {
      const missing = partitions.filter(({ offset }) => Number(offset) < 0);
      const pins = missing.map(({ partition }) => ({ partition, offset: starts[topic]?.[partition] ?? '0' }));
      if (pins.length > 0) pinned.push({ topic, partitions: pins });
      const known = [...partitions.filter(({ offset }) => Number(offset) >= 0), ...pins];
      positions.set(topic, new Map(known.map(({ partition, offset }) => [partition, BigInt(offset)])));
    }
    await member.commit(pinned);
    return positions;
  }

  /** Ends the membership when a topic has come, or partitions were added to one, so that the group shares them out. */
  async #watchPartitions(
    client: KafkaClient,
    leaders: ReadonlyMap<string, Leaders>,
    over: AbortController,
    signal: AbortSignal,
  ): Promise<void> {
    for (;;) {
      await pause(lookAgainMs, signal);
      if (signal.aborted) return;
      for (const topic of this.#topics) {
        const known = leaders.get(topic)?.length ?? 0;
        const now = await client.leaders(topic).then(
          ({ length }) => length,
          () => known,
        );
        if (now !== known) over.abort();
      }
    }
  }

  async #connectAnew(): Promise<KafkaClient> {
    const client = new KafkaClient(this.#settings, this.#logger);
    await client.connect();
    await client.leaders(this.#topics[0] ?? '');
    return client;
  }
}
