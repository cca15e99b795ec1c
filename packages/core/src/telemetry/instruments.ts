import { type Attributes, type Counter, type Histogram, metrics } from '@opentelemetry/api';
import { libraryVersion } from '../options/library-version.js';

/** What this process has done since it was created; for health pages and tests. */
export interface WhizbangCounters {
  /** Messages written to the outbox by `publish` (committed or not: that is the caller's to know). */
  stored: number;
  /** Messages confirmed by the broker. */
  published: number;
  /** Tries to publish that failed. */
  publishFailed: number;
  /** Deliveries taken from the broker, duplicates included. */
  received: number;
  /** Deliveries whose message had been received before. */
  deduplicated: number;
  /** Deliveries that could not be read. */
  undecodable: number;
  /** Deliveries that no handler is registered for. */
  unhandled: number;
  /** Messages handled and committed. */
  handled: number;
  /** Tries to handle that failed. */
  handleFailed: number;
  /** Settlements that came too late: the lease had run out and another instance held the row. */
  stale: number;
}

type CounterName = keyof WhizbangCounters;

const metricNames: Record<CounterName, readonly [string, string]> = {
  stored: ['whizbang.outbox.stored', 'Messages written to the outbox'],
  published: ['whizbang.outbox.published', 'Messages confirmed by the broker'],
  publishFailed: ['whizbang.outbox.failed', 'Tries to publish that failed'],
  received: ['whizbang.inbox.received', 'Deliveries taken from the broker'],
  deduplicated: ['whizbang.inbox.deduplicated', 'Deliveries of messages received before'],
  undecodable: ['whizbang.inbox.undecodable', 'Deliveries that could not be read'],
  unhandled: ['whizbang.inbox.unhandled', 'Deliveries without a handler'],
  handled: ['whizbang.inbox.handled', 'Messages handled and committed'],
  handleFailed: ['whizbang.inbox.failed', 'Tries to handle that failed'],
  stale: ['whizbang.leases.stale', 'Settlements that came after the lease had run out'],
};

/**
 * Counters and histograms, through the OpenTelemetry API: without an SDK they cost a function call. Attributes are message
 * types, destinations and reasons only; ids and stream keys would make a time series each.
 */
export class Instruments {
  readonly counters: WhizbangCounters = {
    stored: 0,
    published: 0,
    publishFailed: 0,
    received: 0,
    deduplicated: 0,
    undecodable: 0,
    unhandled: 0,
    handled: 0,
    handleFailed: 0,
    stale: 0,
  };
  readonly #counters: Record<CounterName, Counter>;
  readonly publishDuration: Histogram;
  readonly handleDuration: Histogram;

  constructor() {
    const meter = metrics.getMeter('whizbang', libraryVersion);
    this.#counters = Object.fromEntries(
      Object.entries(metricNames).map(([key, [name, description]]) => [
        key,
        meter.createCounter(name, { description }),
      ]),
    ) as Record<CounterName, Counter>;
    this.publishDuration = meter.createHistogram('whizbang.outbox.publish.duration', {
      unit: 'ms',
      description: 'From handing a batch to the transport to its last confirmation',
    });
    this.handleDuration = meter.createHistogram('whizbang.inbox.handle.duration', {
      unit: 'ms',
      description: "A handler's transaction, from BEGIN to COMMIT",
    });
  }

  add(name: CounterName, amount: number, attributes?: Attributes): void {
    if (amount > 0) {
      this.counters[name] += amount;
      this.#counters[name].add(amount, attributes);
    }
  }

  /** Adds once per message type instead of once per message. */
  addByType(name: CounterName, messages: readonly { readonly messageType: string }[]): void {
    const byType = new Map<string, number>();
    for (const { messageType } of messages) {
      byType.set(messageType, (byType.get(messageType) ?? 0) + 1);
    }
    for (const [messageType, amount] of byType) {
      this.add(name, amount, { message_type: messageType });
    }
  }
}
