import type { ServiceBusMessage, ServiceBusMessageBatch } from '@azure/service-bus';
import { type PublishOutcome, confirmed, notAttempted } from '@whizbang/core/transport';
import { classification } from './classification.js';
import type { LiveConnection } from './live-connection.js';
import type { DestinationSender, OpenSender } from './destination-sender.js';
import { ServicebusError, askedToWaitMs, classify, textOf } from './errors.js';
import type { Lane } from './lane.js';
import type { ServicebusSettings } from './options.js';
import { type PendingMessage, failed } from './pending-message.js';

// The broker takes several messages at a time only up to here, also where it takes single ones of 100 MB.
const maxBatchBytes = 1_048_576;

/** What sending needs of the publisher. */
export interface SendDesk {
  readonly live: LiveConnection | undefined;
  readonly paused: boolean;
  destination(name: string): DestinationSender;
  settle(pending: PendingMessage, outcome: PublishOutcome): void;
  learnLimit(bytes: number): void;
  /** The broker asks everybody in the namespace for a slower pace. */
  pause(ms: number, cause: Error): void;
  /** A send was not answered in time: is anybody there? */
  suspect(live: LiveConnection): void;
}

/** Sends one group of a lane, and gives its messages their outcomes. */
export class GroupSend {
  readonly #lane: Lane;
  readonly #desk: SendDesk;
  readonly #settings: ServicebusSettings;

  constructor(lane: Lane, desk: SendDesk, settings: ServicebusSettings) {
    this.#lane = lane;
    this.#desk = desk;
    this.#settings = settings;
  }

  /** Never rejects. Afterwards the lane is shorter, or restricted to smaller groups. */
  async run(): Promise<void> {
    const first = this.#lane.first();
    if (first === undefined) return;
    if (first.encoded instanceof ServicebusError) {
      this.#desk.settle(first, failed(first.encoded.classification, first.encoded));
      return;
    }
    const { live, paused } = this.#desk;
    if (live === undefined || paused) {
      this.#releaseLane();
      return;
    }
    const destination = this.#desk.destination(first.message.destination);
    try {
      const open = await destination.open(live);
      this.#desk.learnLimit(open.maxBytes);
      await this.#sendThrough(open, destination, live);
    } catch (error) {
      this.#nothingSent(first, error, live);
    }
  }

  async #sendThrough(open: OpenSender, destination: DestinationSender, live: LiveConnection): Promise<void> {
    const many = Math.min(maxBatchBytes, open.maxBytes);
    let batch = await open.sender.createMessageBatch({ maxSizeInBytes: many });
    let group = this.#lane.take((pending) => add(batch, pending));
    if (group.length === 0 && open.maxBytes > many) {
      batch = await open.sender.createMessageBatch();
      group = this.#lane.take((pending) => batch.count === 0 && add(batch, pending));
    }
    const first = this.#lane.first();
    if (group.length === 0) {
      // Nothing that waits any more, or too large even alone.
      if (first === undefined || first.encoded instanceof ServicebusError) return;
      const sentence = `the message with its headers is larger than the ${open.maxBytes} bytes that the broker takes`;
      this.#desk.settle(first, failed(classification.messageSize, sentence));
      return;
    }
    for (const pending of group) pending.state = 'sent';
    try {
      await open.sender.sendMessages(batch, { abortSignal: open.signal });
    } catch (error) {
      this.#refusedOrLost(group, error, open, destination, live);
      return;
    }
    destination.succeeded();
    for (const pending of group) this.#desk.settle(pending, confirmed);
  }

  /** The link could not be opened. When that is because the connection went, nothing is known about the destination. */
  #nothingSent(first: PendingMessage, error: unknown, live: LiveConnection): void {
    if (live.endedBy !== undefined) this.#releaseLane();
    else this.#fail([first], error);
  }

  #refusedOrLost(
    group: readonly PendingMessage[],
    error: unknown,
    open: OpenSender,
    destination: DestinationSender,
    live: LiveConnection,
  ): void {
    const cause = open.lostBy ?? error;
    const found = classify(cause);
    const concernsOne = !found.retryable && found.reason !== classification.unauthorized.reason;
    if (concernsOne && group.length > 1) {
      // A batch is refused as a whole, and which of its messages is at fault shows by sending them in smaller ones.
      const half = Math.ceil(group.length / 2);
      this.#lane.putBack(group, found.reason === classification.messageSize.reason ? half : 1);
      return;
    }
    if (open.lostBy === undefined && found === classification.timeout) {
      destination.forget();
      this.#desk.suspect(live);
    }
    if (found.reason === classification.unauthorized.reason) {
      destination.refuse(cause instanceof Error ? cause : new Error(textOf(cause)));
    }
    this.#fail(group, cause, open.lostBy !== undefined);
  }

  #fail(group: readonly PendingMessage[], cause: unknown, unanswered = false): void {
    const found = classify(cause);
    if (found === classification.serverBusy) {
      const ms = askedToWaitMs(cause) ?? this.#settings.throttlePauseMs;
      const error = new ServicebusError(textOf(cause), found, { cause, retryAfterMs: ms });
      this.#settleFailed(group, failed(found, error));
      this.#desk.pause(ms, error);
      return;
    }
    // What was sent and not answered may have arrived, whatever took the link away.
    const unknown = unanswered && found.retryable && found.reason !== classification.quotaExceeded.reason;
    const outcome = unknown
      ? failed(classification.linkLost, `no answer, the outcome is unknown: ${textOf(cause)}`, cause)
      : failed(found, cause instanceof Error ? cause : textOf(cause), cause);
    this.#settleFailed(group, outcome);
  }

  /** All were tried, but a stream is stopped by its first: the others will come again behind it. */
  #settleFailed(group: readonly PendingMessage[], outcome: PublishOutcome): void {
    const stopped = new Set<string>();
    for (const pending of group) {
      const { streamId } = pending.message;
      this.#desk.settle(pending, streamId !== null && stopped.has(streamId) ? notAttempted : outcome);
      if (streamId !== null) stopped.add(streamId);
    }
  }

  #releaseLane(): void {
    for (const pending of this.#lane.takeAll()) this.#desk.settle(pending, notAttempted);
  }
}

function add(batch: ServiceBusMessageBatch, pending: PendingMessage): boolean {
  return batch.tryAddMessage(pending.encoded as ServiceBusMessage);
}
