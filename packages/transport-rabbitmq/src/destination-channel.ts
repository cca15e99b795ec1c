import { type Logger, MessageFailureReason } from '@whizbang/core/transport';
import type { ConfirmChannel } from 'amqplib';
import type { LiveConnection } from './connection.js';
import { findCulprits } from './culprits.js';
import { RabbitmqError, classify, replyCode, sizeLimitOf } from './errors.js';
import { FailureLog } from './failure-log.js';
import type { RabbitmqSettings } from './options.js';
import { type PendingMessage, type PublishDesk, confirmed, failed } from './pending-message.js';
import { checkMessage } from './precheck.js';
import { ensureExchange } from './topology.js';
import { UnconfirmedMessages } from './unconfirmed-messages.js';
import { within } from './wait.js';

// A refused destination is not asked again for this long, so that refusals cost no round trips.
const refusalHoldsMs = 1000;

/** The channel of one destination: sends what is queued, within the window, and attributes every confirm to its message. */
export class DestinationChannel {
  readonly #name: string;
  readonly #settings: RabbitmqSettings;
  readonly #desk: PublishDesk;
  readonly #log: FailureLog;
  readonly #unconfirmed: UnconfirmedMessages;
  #queue: PendingMessage[] = [];
  #state: 'closed' | 'opening' | 'open' = 'closed';
  #channel: ConfirmChannel | undefined;
  /** Counts the channels opened; what an earlier one still has to say is ignored. */
  #generation = 0;
  /** The connection on which the exchange is known to exist. */
  #declaredOn: LiveConnection | undefined;
  #refused: { readonly error: Error; readonly until: number } | undefined;
  /** So many messages are sent one by one, to find the one for which the broker closes the channel. */
  #oneByOne = 0;
  /** amqplib's buffer is full until 'drain'. */
  #full = false;
  #pumpScheduled = false;

  constructor(name: string, settings: RabbitmqSettings, desk: PublishDesk, logger: Logger) {
    this.#name = name;
    this.#settings = settings;
    this.#desk = desk;
    this.#log = new FailureLog(logger, `publishing to exchange "${name}"`);
    this.#unconfirmed = new UnconfirmedMessages(settings.publishWindow, settings.confirmTimeoutMs, (pending) =>
      this.#onTimeout(pending),
    );
  }

  enqueue(pending: PendingMessage): void {
    this.#queue.push(pending);
    this.#schedulePump();
  }

  /** Once for all confirms that arrive together, and once for a whole batch. */
  #schedulePump(): void {
    if (this.#pumpScheduled) return;
    this.#pumpScheduled = true;
    queueMicrotask(() => {
      this.#pumpScheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    const { live } = this.#desk;
    const channel = this.#channel;
    if (this.#unconfirmed.stuck && this.#unconfirmed.size === 0) void channel?.close().catch(() => undefined);
    if (live === undefined || this.#queue.length === 0) return;
    if (this.#state === 'closed') this.#open(live);
    if (this.#state !== 'open' || channel === undefined) return;
    const now = performance.now();
    let taken = 0;
    for (const pending of this.#queue) {
      if (pending.state === 'waiting') {
        if (!this.#hasRoomFor(pending)) break;
        if (!this.#send(pending, channel, live, now)) break;
      }
      taken += 1;
    }
    this.#queue = taken === this.#queue.length ? [] : this.#queue.slice(taken);
  }

  #hasRoomFor({ message }: PendingMessage): boolean {
    if (this.#full || !this.#unconfirmed.hasRoom()) return false;
    if (this.#oneByOne > 0 && this.#unconfirmed.size > 0) return false;
    // Returned messages are told apart by their id.
    return !this.#unconfirmed.has(message.messageId);
  }

  /** False when the channel turned out to be closed: then the message keeps its place. */
  #send(pending: PendingMessage, channel: ConfirmChannel, live: LiveConnection, now: number): boolean {
    const { message } = pending;
    const properties = checkMessage(message, this.#desk.maxMessageBytes ?? Number.POSITIVE_INFINITY, live.frameMax);
    if (properties instanceof RabbitmqError) {
      this.#desk.settle(pending, failed(properties, properties));
      return true;
    }
    properties.mandatory = this.#settings.mandatory;
    try {
      this.#full = !channel.publish(this.#name, message.messageType, message.body, properties, (error: unknown) =>
        this.#onConfirm(pending, error),
      );
    } catch (error) {
      if (error instanceof Error && error.name === 'IllegalOperationError') return false;
      this.#desk.settle(pending, failed(classify(error), error));
      return true;
    }
    pending.state = 'sent';
    pending.sentAt = now;
    this.#unconfirmed.add(pending);
    return true;
  }

  #onConfirm(pending: PendingMessage, error: unknown): void {
    // Otherwise the channel has ended, and its 'close' follows with a better reason.
    if (error instanceof Error && error.message !== 'message nacked') return;
    if (this.#unconfirmed.answered(pending)) {
      if (this.#oneByOne > 0) this.#oneByOne -= 1;
      if (error instanceof Error) {
        this.#desk.settle(
          pending,
          failed(classify(error), 'the broker refused the message: a queue is full or unavailable'),
        );
      } else if (pending.returned) {
        const nobody = `no queue is bound to exchange "${this.#name}" for "${pending.message.messageType}"`;
        this.#desk.settle(pending, failed(notReady, nobody));
      } else {
        this.#desk.settle(pending, confirmed);
        this.#log.succeeded();
      }
    }
    this.#schedulePump();
  }

  #onTimeout(pending: PendingMessage): void {
    const { confirmTimeoutMs } = this.#settings;
    const { Throttled, TransportException } = MessageFailureReason;
    const blocked = this.#desk.blockedByBroker;
    const sentence = `the broker did not confirm within ${confirmTimeoutMs} ms; the outcome is unknown`;
    if (this.#oneByOne > 0) this.#oneByOne -= 1;
    this.#desk.settle(
      pending,
      failed(
        { reason: blocked ? Throttled : TransportException, retryable: true },
        blocked ? `${sentence} (it has stopped taking messages)` : sentence,
      ),
    );
    this.#schedulePump();
  }

  #open(live: LiveConnection): void {
    if (this.#refused !== undefined && performance.now() < this.#refused.until) {
      this.#failQueue(this.#refused.error);
      return;
    }
    this.#refused = undefined;
    this.#state = 'opening';
    this.#generation += 1;
    const opening = this.#declareAndOpen(live, this.#generation);
    const { connectTimeoutMs } = this.#settings;
    within(opening, connectTimeoutMs, () => new Error(`opening a channel took more than ${connectTimeoutMs} ms`)).then(
      (channel) => {
        this.#state = 'open';
        this.#channel = channel;
        this.#schedulePump();
      },
      (error: unknown) => {
        this.#state = 'closed';
        opening.then((channel) => channel.close()).catch(() => undefined);
        if (error instanceof RabbitmqError) this.#refuse(error);
        // No answer, so nothing is known about the destination, and nothing was sent.
        else for (const pending of this.#takeQueue()) this.#desk.release(pending);
      },
    );
  }

  async #declareAndOpen(live: LiveConnection, generation: number): Promise<ConfirmChannel> {
    if (this.#declaredOn !== live) await ensureExchange(live, this.#name, this.#settings);
    this.#declaredOn = live;
    const channel = await live.model.createConfirmChannel();
    this.#full = false;
    let closedBy: Error | undefined;
    channel.on('error', (error) => (closedBy = error));
    channel.on('drain', () => {
      this.#full = false;
      this.#schedulePump();
    });
    channel.on('return', ({ properties }) => {
      const pending = this.#unconfirmed.get(String(properties.messageId));
      if (pending !== undefined) pending.returned = true;
    });
    channel.on('close', () => {
      if (generation !== this.#generation) return;
      this.#state = 'opening';
      this.#channel = undefined;
      // The reason of a closed connection comes after the 'close' of its channels.
      setImmediate(() => this.#onClosed(live, closedBy));
    });
    return channel;
  }

  #onClosed(live: LiveConnection, closedBy: Error | undefined): void {
    this.#state = 'closed';
    this.#oneByOne = 0;
    const unconfirmed = this.#unconfirmed.takeAll();
    const cause = closedBy ?? live.endedBy ?? new Error('channel closed');
    const { culprits, innocent, wholeDestination } =
      closedBy === undefined
        ? { culprits: unconfirmed, innocent: [], wholeDestination: false }
        : findCulprits(unconfirmed, closedBy);
    if (closedBy !== undefined) this.#learnFrom(closedBy);
    for (const pending of culprits) {
      this.#desk.settle(pending, failed(classify(cause, 'inFlight'), `not confirmed: ${cause.message}`, cause));
    }
    if (wholeDestination) this.#refuse(cause);
    if (culprits.length === 0) this.#oneByOne = innocent.length;
    this.#sendAgain(innocent, live);
    this.#schedulePump();
  }

  #learnFrom(closedBy: Error): void {
    this.#log.failed(closedBy.message);
    // Somebody has deleted the exchange; it is declared again before the next message.
    if (replyCode(closedBy) === 404) this.#declaredOn = undefined;
    const limit = sizeLimitOf(closedBy);
    if (limit !== undefined) this.#desk.learnMaxMessageBytes(limit);
  }

  /**
   * What was behind the culprit the broker has ignored; what was before it may be stored. Sending all of it again gives at
   * worst duplicates; failing it would give the same duplicates later, and an attempt charged to messages that did no wrong.
   */
  #sendAgain(innocent: readonly PendingMessage[], live: LiveConnection): void {
    for (const pending of innocent) {
      pending.maybeStored = true;
      pending.returned = false;
      pending.state = 'waiting';
      const mayGo = live.endedBy === undefined && this.#desk.ready && !pending.call.signal.aborted;
      if (!mayGo) this.#desk.release(pending);
    }
    this.#queue = [...innocent, ...this.#queue];
  }

  #refuse(error: Error): void {
    this.#log.failed(error.message);
    this.#refused = { error, until: performance.now() + refusalHoldsMs };
    this.#failQueue(error);
  }

  #failQueue(error: Error): void {
    for (const pending of this.#takeQueue()) this.#desk.settle(pending, failed(classify(error), error));
  }

  #takeQueue(): PendingMessage[] {
    const queue = this.#queue;
    this.#queue = [];
    return queue;
  }
}

const notReady = { reason: MessageFailureReason.TransportNotReady, retryable: true };
