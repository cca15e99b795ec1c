import { randomUUID } from 'node:crypto';
import type { OutgoingMessage, SubscriptionRequest, Transport } from '@whizbang/core/transport';
import { Arrivals, Hold, within } from './deadline.js';
import type { RawMessage, Topology, TransportFixture } from './fixture.js';
import { defaultType } from './messages.js';
import { Receiver, type ReceiverOptions, requestOf } from './receiver.js';
import { StagedTransport } from './staged-transport.js';

/** What one check works with: its own names at the broker, its transports and receivers, and their end. */
export class Stage {
  readonly fixture: TransportFixture;
  readonly deadlineMs: number;
  readonly #destinations: string[] = [];
  readonly #services: string[] = [];
  readonly #holds: Hold[] = [];
  readonly #transports: StagedTransport[] = [];
  readonly #closers: (() => Promise<void>)[] = [];

  constructor(fixture: TransportFixture) {
    this.fixture = fixture;
    this.deadlineMs = fixture.deadlineMs ?? 10_000;
  }

  /** A destination that nobody else uses. */
  destination(label = 'orders'): string {
    const name = `conf-${label}-${randomUUID().slice(0, 8)}`;
    this.#destinations.push(name);
    return name;
  }

  /** A service that nobody else uses. */
  service(label = 'shipping'): string {
    const name = `conf-${label}-${randomUUID().slice(0, 8)}`;
    this.#services.push(name);
    return name;
  }

  /** Released at the end of the check at the latest, so that nothing waits for it for ever. */
  hold(): Hold {
    const hold = new Hold();
    this.#holds.push(hold);
    return hold;
  }

  within<T>(what: string, promise: Promise<T>): Promise<T> {
    return within(this.deadlineMs, what, promise);
  }

  arrivals<T>(): Arrivals<T> {
    return new Arrivals<T>(this.deadlineMs);
  }

  async unconnected(): Promise<StagedTransport> {
    return this.#staged(await this.fixture.createTransport());
  }

  /** A transport that the broker will not let in, not connected yet. */
  async refused(): Promise<StagedTransport> {
    if (this.fixture.createRefused === undefined) throw new Error('the check needs a fixture with createRefused');
    return this.#staged(await this.fixture.createRefused());
  }

  /** A transport that is connected and ready. */
  async transport(): Promise<StagedTransport> {
    const transport = await this.unconnected();
    await transport.connect();
    await transport.untilReady(true);
    return transport;
  }

  /** Receives what the options say; resolves when messages do arrive. */
  async receive(transport: StagedTransport, options: ReceiverOptions): Promise<Receiver> {
    await this.provide(this.requestOf(options));
    const receiver = await this.subscribe(transport, options);
    await receiver.untilItReceives(transport);
    return receiver;
  }

  /** Subscribes without waiting for the broker: for instances that stand by, and while the broker is away. */
  async subscribe(transport: StagedTransport, options: ReceiverOptions): Promise<Receiver> {
    const subscribing = Receiver.subscribe(transport, this.#asPossible(options), this.deadlineMs);
    return this.within('subscribe resolves', subscribing);
  }

  requestOf(options: ReceiverOptions): SubscriptionRequest {
    return requestOf(this.#asPossible(options));
  }

  /** In order, unless the check asks for something else or the transport has none. */
  #asPossible(options: ReceiverOptions): ReceiverOptions {
    return { ordered: this.fixture.capabilities.orderedStreams, ...options };
  }

  /** Where the transport may not create what it needs, the fixture does. */
  async provide(topology: Topology): Promise<void> {
    if (!this.fixture.capabilities.createsTopology) await this.fixture.provide?.(topology);
  }

  /** Reads a destination by another way than the transport. */
  async inspect(destination: string): Promise<Arrivals<RawMessage>> {
    const consumer = await this.fixture.inspect?.(destination);
    if (consumer === undefined) throw new Error('the check needs a fixture with inspect');
    this.#closers.push(() => consumer.close());
    const arrivals = this.arrivals<RawMessage>();
    consumer.onMessage(() => arrivals.push(...consumer.messages().slice(arrivals.items.length)));
    return arrivals;
  }

  async outage(during: () => Promise<void>): Promise<void> {
    if (this.fixture.outage === undefined) throw new Error('the check needs a fixture with outage');
    await this.fixture.outage(during);
  }

  async restart(): Promise<void> {
    if (this.fixture.restart === undefined) throw new Error('the check needs a fixture with restart');
    await this.fixture.restart();
  }

  async absence(awayMs: number): Promise<void> {
    if (this.fixture.absence === undefined) throw new Error('the check needs a fixture with absence');
    await this.fixture.absence(awayMs);
  }

  async stall(during: () => Promise<void>): Promise<void> {
    if (this.fixture.stall === undefined) throw new Error('the check needs a fixture with stall');
    await this.fixture.stall(during);
  }

  async throttle(during: () => Promise<void>): Promise<void> {
    if (this.fixture.throttle === undefined) throw new Error('the check needs a fixture with throttle');
    await this.fixture.throttle(during);
  }

  async takeBack(topology: Topology): Promise<void> {
    if (this.fixture.takeBack === undefined) throw new Error('the check needs a fixture with takeBack');
    await this.fixture.takeBack(topology);
  }

  /** Makes messages of a type and destination routable, whoever reads them. */
  async drain(destination: string, type = defaultType): Promise<Receiver> {
    return this.receive(await this.transport(), { service: this.service('drain'), destination, types: [type] });
  }

  #staged(transport: Transport): StagedTransport {
    const staged = new StagedTransport(transport, this.deadlineMs);
    this.#transports.push(staged);
    return staged;
  }

  async clear(): Promise<void> {
    for (const hold of this.#holds) hold.release();
    await Promise.all(
      this.#transports.map((transport) => this.within('close at the end', transport.transport.close())),
    );
    await Promise.all(this.#closers.map((close) => close()));
    await this.fixture.cleanUp?.({ destinations: this.#destinations, services: this.#services });
  }
}

export function idsOf(messages: readonly (RawMessage | OutgoingMessage)[]): string[] {
  return messages.map(({ messageId }) => messageId);
}
