import {
  type Logger,
  type OutgoingMessage,
  PublishCalls,
  type PublishOutcome,
  notAttempted,
} from '@whizbang/core/transport';
import type { ConnectionListener, LiveConnection } from './connection.js';
import { Destination } from './destination.js';
import { byName } from './classification.js';
import { RabbitmqError } from './errors.js';
import type { RabbitmqSettings } from './options.js';
import { type PendingMessage, type PublishDesk, failed } from './pending-message.js';
import { StreamOrder } from './stream-order.js';
import { versionAtLeast } from './topology.js';

/**
 * Publishes batches over one connection, with a channel for each destination: a refusal closes the channel it concerns,
 * and so never touches another destination.
 */
export class Publisher implements ConnectionListener, PublishDesk {
  readonly #settings: RabbitmqSettings;
  readonly #logger: Logger;
  readonly #onReadyChange: (ready: boolean, cause?: Error) => void;
  readonly #destinations = new Map<string, Destination>();
  readonly #streams = new StreamOrder();
  readonly #calls = new PublishCalls<PendingMessage>((pending) => this.release(pending));
  #live: LiveConnection | undefined;
  #blocked = false;
  #closed = false;
  #maxMessageBytes: number | undefined;

  constructor(
    settings: RabbitmqSettings,
    logger: Logger,
    onReadyChange: (ready: boolean, cause?: Error) => void = () => undefined,
  ) {
    this.#settings = settings;
    this.#logger = logger;
    this.#onReadyChange = onReadyChange;
    this.#maxMessageBytes = settings.maxMessageBytes;
  }

  get live(): LiveConnection | undefined {
    return this.#live;
  }

  get ready(): boolean {
    return this.#live !== undefined && !this.#blocked && !this.#closed;
  }

  /** A memory or disk alarm is on at the broker, and it has stopped reading from this connection. */
  get blockedByBroker(): boolean {
    return this.#blocked;
  }

  /** Null until the broker's version is known. */
  get maxMessageBytes(): number | null {
    return this.#maxMessageBytes ?? null;
  }

  up(live: LiveConnection): void {
    this.#live = live;
    this.#blocked = false;
    this.#maxMessageBytes ??= versionAtLeast(live.serverVersion, 4, 0) ? 16 * 2 ** 20 : 128 * 2 ** 20;
    this.#onReadyChange(true);
  }

  down(cause: Error): void {
    this.#live = undefined;
    this.#blocked = false;
    this.#calls.releaseUnsent();
    this.#onReadyChange(false, cause);
  }

  blocked(reason: string): void {
    this.#blocked = true;
    const sentence = `RabbitMQ takes no messages for now: ${reason} (memory or disk alarm)`;
    this.#logger.warn({ reason }, sentence);
    this.#calls.releaseUnsent();
    this.#onReadyChange(false, new RabbitmqError(sentence, byName.blocked));
  }

  unblocked(): void {
    this.#blocked = false;
    this.#logger.info({}, 'RabbitMQ takes messages again');
    this.#onReadyChange(true);
  }

  publish(batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<PublishOutcome[]> {
    if (!this.ready || signal.aborted || batch.length === 0) return Promise.resolve(batch.map(() => notAttempted));
    const { call, outcomes } = this.#calls.begin(batch.length, signal);
    for (const [index, message] of batch.entries()) {
      const pending: PendingMessage = {
        message,
        call,
        index,
        state: 'waiting',
        maybeStored: false,
        sentAt: 0,
        returned: false,
      };
      call.messages.push(pending);
      if (this.#streams.enter(pending)) this.#destination(message.destination).enqueue(pending);
    }
    return outcomes;
  }

  /** Records the outcome of a message, and lets the next of its stream go or go back. */
  settle(pending: PendingMessage, outcome: PublishOutcome): void {
    if (pending.state === 'settled') return;
    pending.state = 'settled';
    pending.call.settled(pending.index, outcome);
    if (outcome.kind === 'confirmed') {
      const next = this.#streams.confirmed(pending);
      if (next !== undefined) this.#destination(next.message.destination).enqueue(next);
      return;
    }
    for (const behind of this.#streams.cut(pending)) {
      behind.state = 'settled';
      behind.call.settled(behind.index, notAttempted);
    }
  }

  /** Gives a message back that is not with the broker now: `notAttempted`, unless an ended channel may have delivered it. */
  release(pending: PendingMessage): void {
    this.settle(pending, pending.maybeStored ? unknownOutcome() : notAttempted);
  }

  /** The broker has told its real limit by refusing a message. */
  learnMaxMessageBytes(limit: number): void {
    this.#maxMessageBytes = Math.min(this.#maxMessageBytes ?? limit, limit);
  }

  /** Sends nothing more, and waits up to `ms` for the confirms of what was sent. */
  async close(ms: number): Promise<void> {
    this.#closed = true;
    this.#calls.releaseUnsent();
    await this.#calls.ended(ms);
  }

  #destination(name: string): Destination {
    let destination = this.#destinations.get(name);
    if (destination === undefined) {
      destination = new Destination(name, this.#settings, this, this.#logger);
      this.#destinations.set(name, destination);
    }
    return destination;
  }
}

function unknownOutcome(): PublishOutcome {
  return failed(
    byName.lostInFlight,
    'the channel ended before the broker confirmed the message; the outcome is unknown',
  );
}
