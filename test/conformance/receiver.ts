import { setTimeout as delay } from 'node:timers/promises';
import type {
  Delivery,
  OutgoingMessage,
  SubscriptionRequest,
  Transport,
  TransportSubscription,
} from '@whizbang/core/transport';
import { Arrivals, within } from './deadline.js';
import { defaultType, messageTo, newStream } from './messages.js';
import type { StagedTransport } from './staged-transport.js';

const probeHeader = 'conformance-probe';

export interface ReceiverOptions {
  readonly service: string;
  readonly destination: string;
  readonly types?: readonly string[];
  /** Bindings beside the one of `destination`. */
  readonly alsoFrom?: SubscriptionRequest['bindings'];
  readonly ordered?: boolean;
  readonly maxBatch?: number;
  readonly prefetch?: number;
  /** A list that several receivers share: what they accept, in the order in which they do. */
  readonly alsoInto?: Arrivals<Delivery>;
  /** What the handler does; `call` counts from 1. By default it accepts everything. */
  readonly handle?: (deliveries: readonly Delivery[], call: number) => Promise<void> | void;
}

export function requestOf(options: ReceiverOptions): SubscriptionRequest {
  return {
    service: options.service,
    bindings: [
      { destination: options.destination, messageTypes: options.types ?? [defaultType] },
      ...(options.alsoFrom ?? []),
    ],
    ordered: options.ordered ?? true,
    maxBatch: options.maxBatch ?? 50,
    prefetch: options.prefetch ?? 100,
  };
}

/** A subscription that remembers what it was handed, with a handler that the check directs. */
export class Receiver {
  /** Deliveries of all calls, rejected ones too, in the order of the calls. */
  readonly handed: Arrivals<Delivery>;
  /** Deliveries of the calls whose promise has resolved. */
  readonly accepted: Arrivals<Delivery>;
  /** Ids of each call of the handler. */
  readonly calls: string[][] = [];
  /** The most calls that ever ran at the same time. */
  mostAtOnce = 0;
  readonly request: SubscriptionRequest;
  readonly #options: ReceiverOptions;
  readonly #probes: Arrivals<string>;
  #running = 0;
  #subscription: TransportSubscription | undefined;

  private constructor(options: ReceiverOptions, deadlineMs: number) {
    this.#options = options;
    this.request = requestOf(options);
    this.handed = new Arrivals(deadlineMs);
    this.accepted = new Arrivals(deadlineMs);
    this.#probes = new Arrivals(deadlineMs);
  }

  static async subscribe(
    { transport }: StagedTransport,
    options: ReceiverOptions,
    deadlineMs: number,
  ): Promise<Receiver> {
    const receiver = new Receiver(options, deadlineMs);
    receiver.#subscription = await transport.subscribe(receiver.request, (deliveries) => receiver.#take(deliveries));
    return receiver;
  }

  get subscription(): TransportSubscription {
    if (this.#subscription === undefined) throw new Error('not subscribed yet');
    return this.#subscription;
  }

  get handedIds(): string[] {
    return this.handed.items.map(idOf);
  }

  get acceptedIds(): string[] {
    return this.accepted.items.map(idOf);
  }

  /**
   * `subscribe` may resolve before the broker knows of it, and what is sent before is unroutable or lost. So every binding
   * is probed until a message has come through; the probes are kept from the check's handler.
   */
  async untilItReceives({ transport }: StagedTransport): Promise<void> {
    for (const { destination, messageTypes } of this.request.bindings) {
      for (const type of messageTypes) {
        await this.#untilProbed(transport, messageTo(destination, { type, headers: { [probeHeader]: 'yes' } }));
      }
    }
  }

  /**
   * A stream whose messages come here, and not to another instance of the service: where the broker hands out partitions,
   * some streams are elsewhere.
   */
  async streamItReceives({ transport }: StagedTransport, others: readonly Receiver[]): Promise<string> {
    const { destination, messageTypes } = this.request.bindings[0] ?? { destination: '', messageTypes: [] };
    const { signal } = new AbortController();
    const type = messageTypes[0] ?? defaultType;
    for (;;) {
      const stream = newStream();
      const probe = messageTo(destination, { type, stream, headers: { [probeHeader]: 'yes' } });
      await transport.publish([probe], signal);
      const arrived = [this, ...others].map(async (receiver) => {
        await receiver.#probes.until('a probe of a stream arrives', (ids) => ids.includes(probe.messageId));
        return receiver;
      });
      if ((await Promise.any(arrived)) === this) return stream;
    }
  }

  close(deadlineMs = 10_000): Promise<void> {
    return within(deadlineMs, 'the subscription closes', this.subscription.close());
  }

  /** The same message every time: the broker may take it more than once, one arrival is enough. */
  async #untilProbed(transport: Transport, probe: OutgoingMessage): Promise<void> {
    const { signal } = new AbortController();
    const arrived = new AbortController();
    const what = `a message comes through ${probe.destination}`;
    const arriving = this.#probes.until(what, (ids) => ids.includes(probe.messageId)).finally(() => arrived.abort());
    // It may fail while something else is awaited; it is awaited itself at the end.
    arriving.catch(() => undefined);
    while (!arrived.signal.aborted) {
      const [outcome] = await transport.publish([probe], signal);
      // Confirmed, it is on its way or was dropped; otherwise the queue is not there yet.
      const pause = outcome?.kind === 'confirmed' ? 250 : 20;
      await delay(pause, undefined, { signal: arrived.signal }).catch(() => undefined);
    }
    await arriving;
  }

  #take(deliveries: readonly Delivery[]): Promise<void> {
    this.#running += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#running);
    const probes = deliveries.filter(isProbe);
    if (probes.length > 0) this.#probes.push(...probes.map(idOf));
    const real = deliveries.filter((delivery) => !isProbe(delivery));
    return this.#handle(real).finally(() => (this.#running -= 1));
  }

  async #handle(deliveries: readonly Delivery[]): Promise<void> {
    if (deliveries.length === 0) return;
    this.calls.push(deliveries.map(idOf));
    this.handed.push(...deliveries);
    await this.#options.handle?.(deliveries, this.calls.length);
    this.accepted.push(...deliveries);
    this.#options.alsoInto?.push(...deliveries);
  }
}

export function idOf(delivery: Delivery): string {
  return delivery.attributes['id'] ?? 'no id';
}

export function isProbe(delivery: Delivery): boolean {
  return delivery.headers[probeHeader] !== undefined;
}
