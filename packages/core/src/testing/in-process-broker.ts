import { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { OutgoingMessage, PublishOutcome, SubscriptionRequest } from '../contract/transport.js';
import { ConfigurationError } from '../errors/whizbang-error.js';
import { Gate } from './gate.js';
import { type FaultOptions, InProcessFaults, failed } from './in-process-faults.js';
import { Destination } from './in-process-destination.js';
import { ServiceQueue, type StoredMessage } from './service-queue.js';

const brokersByName = new Map<string, InProcessBroker>();
const confirmed: PublishOutcome = { kind: 'confirmed' };
const notAttempted: PublishOutcome = { kind: 'notAttempted' };

/** What one transport asks of the broker; real brokers take these per message or per connection. */
export interface PublishRules {
  readonly mandatory: boolean;
  readonly declare: boolean;
  readonly maxMessageBytes: number | null;
}

/** Told when the broker goes away or comes back. */
export interface BrokerConnection {
  availabilityChanged(available: boolean, cause: Error | undefined): void;
}

/**
 * The broker behind `memory:` connection strings: destinations, a queue per service, bindings by message type. It lives as
 * long as the process, like a broker that outlives its connections, until {@link InProcessBroker.remove}. Tests reach it by
 * name to look inside and to order faults.
 */
export class InProcessBroker {
  readonly name: string;
  readonly #queues = new Map<string, ServiceQueue>();
  readonly #destinations = new Map<string, Destination>();
  readonly #connections = new Set<BrokerConnection>();
  readonly #faults = new InProcessFaults();
  #available = true;
  #blocked: Gate | undefined;

  private constructor(name: string) {
    this.name = name;
  }

  /** The broker of `memory:<name>`; made on first use. */
  static named(name = ''): InProcessBroker {
    let broker = brokersByName.get(name);
    if (broker === undefined) {
      broker = new InProcessBroker(name);
      brokersByName.set(name, broker);
    }
    return broker;
  }

  /** Forgets the broker and everything in it; the next transport of that name meets a new one. */
  static remove(name = ''): void {
    const broker = brokersByName.get(name);
    if (broker !== undefined) broker.#clear();
    brokersByName.delete(name);
  }

  get available(): boolean {
    return this.#available;
  }

  /** False: all connections break, unacknowledged messages go back to their queues, `ready()` of all transports is false. */
  setAvailable(available: boolean, cause = new Error(`in-process broker "${this.name}" was made unavailable`)): void {
    if (this.#available === available) return;
    this.#available = available;
    for (const connection of [...this.#connections]) connection.availabilityChanged(available, cause);
    // Those who wait at the gate look again and find the broker gone.
    if (!available) this.#blocked?.open();
    if (!available && this.#blocked !== undefined) this.#blocked = new Gate();
  }

  /** Unavailable while `during` runs. */
  async outage<T>(during: () => Promise<T>): Promise<T> {
    this.setAvailable(false);
    try {
      return await during();
    } finally {
      this.setAvailable(true);
    }
  }

  /** Every publish waits until `unblock`, its abort signal, an outage, or the close of its transport; receiving goes on. */
  block(): void {
    this.#blocked ??= new Gate();
  }

  unblock(): void {
    this.#blocked?.open();
    this.#blocked = undefined;
  }

  /** What a blocked publish waits at; `undefined` while nothing is blocked. */
  get blocked(): Gate | undefined {
    return this.#blocked;
  }

  /** The next `count` messages to `destination` get the ordered outcome instead of being stored. */
  failNext(destination: string, count = 1, options: FaultOptions = {}): void {
    this.#faults.plan(destination, count, options);
  }

  /** Messages of a service that are waiting or not acknowledged yet. */
  depth(service: string): number {
    return this.#queues.get(service)?.depth ?? 0;
  }

  /** Sees every message stored on a destination, whatever its type, and counts as a route. Returns how to stop. */
  tap(destination: string, listener: (message: StoredMessage) => void): () => void {
    return this.#destination(destination).tap(listener);
  }

  join(connection: BrokerConnection): void {
    this.#connections.add(connection);
  }

  leave(connection: BrokerConnection): void {
    this.#connections.delete(connection);
  }

  /**
   * The queue of a service with its bindings. Bindings are only ever added.
   * @throws ConfigurationError when something is missing and `create` is false.
   */
  declare(service: string, bindings: SubscriptionRequest['bindings'], create = true): ServiceQueue {
    const missing = bindings.filter(({ destination }) => !this.#destinations.has(destination));
    const existing = this.#queues.get(service);
    if (!create && (missing.length > 0 || existing === undefined)) {
      const lacking = [
        ...missing.map(({ destination }) => `destination "${destination}"`),
        ...(existing ? [] : [`queue "${service}"`]),
      ];
      throw new ConfigurationError(`in-process broker lacks ${lacking.join(', ')} and the option declare is false`);
    }
    const queue = existing ?? new ServiceQueue(service);
    this.#queues.set(service, queue);
    for (const { destination, messageTypes } of bindings) {
      this.#destination(destination).bind(queue, messageTypes);
    }
    return queue;
  }

  publish(batch: readonly OutgoingMessage[], rules: PublishRules): PublishOutcome[] {
    const stopped = new Set<string>();
    return batch.map((message) => {
      const { streamId } = message;
      if (streamId !== null && stopped.has(streamId)) return notAttempted;
      const outcome = this.#publishOne(message, rules);
      if (streamId !== null && outcome.kind !== 'confirmed') stopped.add(streamId);
      return outcome;
    });
  }

  #clear(): void {
    for (const queue of this.#queues.values()) queue.clear();
    this.#faults.clear();
  }

  #publishOne(message: OutgoingMessage, rules: PublishRules): PublishOutcome {
    if (rules.maxMessageBytes !== null && message.body.length > rules.maxMessageBytes) {
      const text = `body of ${message.body.length} bytes is larger than the ${rules.maxMessageBytes} allowed`;
      return failed(MessageFailureReason.MessageBodyTooLarge, false, text);
    }
    const fault = this.#faults.next(message.destination);
    if (fault !== undefined && !fault.stored) return fault.outcome;
    const destination = this.#destinations.get(message.destination);
    if (destination === undefined && !rules.declare) {
      return failed(
        MessageFailureReason.TransportNotReady,
        true,
        `destination "${message.destination}" does not exist`,
      );
    }
    const routed = destination?.store(message) ?? false;
    if (!routed && rules.mandatory) {
      const text = `no service receives "${message.messageType}" from "${message.destination}"`;
      return failed(MessageFailureReason.TransportNotReady, true, text);
    }
    return fault?.outcome ?? confirmed;
  }

  #destination(name: string): Destination {
    let destination = this.#destinations.get(name);
    if (destination === undefined) {
      destination = new Destination();
      this.#destinations.set(name, destination);
    }
    return destination;
  }
}
