import { type Logger, MessageFailureReason, type PublishOutcome } from '@whizbang/core/transport';
import type { ConfirmChannel } from 'amqplib';
import type { LiveConnection } from './connection.js';
import { type Classification, RabbitmqError, classify, replyCode, sizeLimitOf } from './errors.js';
import { FailureLog } from './failure-log.js';
import type { RabbitmqSettings } from './options.js';
import type { PendingMessage, PublishDesk } from './pending-message.js';
import { checkMessage } from './precheck.js';
import { ensureExchange } from './topology.js';
import { within } from './wait.js';

// amqplib copies every body; this bounds what waits for its confirm beside the count of messages.
const maxUnconfirmedBytes = 64 * 2 ** 20;
// A refused destination is not asked again for this long, so that refusals cost no round trips.
const refusalHoldsMs = 1000;

/** The channel of one destination: sends what is queued, within the window, and attributes every confirm to its message. */
export class DestinationChannel {
  readonly #name: string;
  readonly #settings: RabbitmqSettings;
  readonly #publisher: PublishDesk;
  readonly #log: FailureLog;
  #queue: PendingMessage[] = [];
  /** By message id, in the order of sending. */
  readonly #unconfirmed = new Map<string, PendingMessage>();
  #unconfirmedBytes = 0;
  #state: 'closed' | 'opening' | 'open' = 'closed';
  #channel: ConfirmChannel | undefined;
  /** The connection on which the exchange is known to exist. */
  #declaredOn: LiveConnection | undefined;
  #channelError: Error | undefined;
  #refused: { readonly error: RabbitmqError; readonly until: number } | undefined;
  /** So many messages are sent one by one, to find the one for which the broker closes the channel. */
  #oneByOne = 0;
  /** Timed out and still not confirmed. */
  #abandoned = 0;
  #full = false;
  #pumpScheduled = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(name: string, settings: RabbitmqSettings, publisher: PublishDesk, logger: Logger) {
    this.#name = name;
    this.#settings = settings;
    this.#publisher = publisher;
    this.#log = new FailureLog(logger, `publishing to exchange "${name}"`);
  }

  enqueue(pending: PendingMessage): void {
    this.#queue.push(pending);
    this.#schedulePump();
  }

  /** Once for all confirms that arrive together, and after the whole batch is queued. */
  #schedulePump(): void {
    if (this.#pumpScheduled) return;
    this.#pumpScheduled = true;
    queueMicrotask(() => {
      this.#pumpScheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    const { live } = this.#publisher;
    if (live === undefined || this.#queue.length === 0) return;
    if (this.#state === 'closed') this.#open(live);
    if (this.#state !== 'open' || this.#channel === undefined) return;
    const now = performance.now();
    let taken = 0;
    for (const pending of this.#queue) {
      if (pending.state === 'waiting') {
        if (!this.#hasRoom() || this.#unconfirmed.has(pending.message.messageId)) break;
        if (!this.#send(pending, this.#channel, live, now)) break;
      }
      taken += 1;
    }
    this.#queue = taken === this.#queue.length ? [] : this.#queue.slice(taken);
    if (this.#unconfirmed.size > 0) this.#timer ??= setTimeout(() => this.#timeOut(), this.#settings.confirmTimeoutMs);
  }

  #hasRoom(): boolean {
    return (
      !this.#full &&
      this.#unconfirmed.size < (this.#oneByOne > 0 ? 1 : this.#settings.publishWindow) &&
      this.#unconfirmedBytes < maxUnconfirmedBytes &&
      // A broker that has let a whole window time out gets nothing more on this channel; it is replaced when it is empty.
      this.#abandoned < this.#settings.publishWindow
    );
  }

  /** False when the channel turned out to be closed: then the message keeps its place. */
  #send(pending: PendingMessage, channel: ConfirmChannel, live: LiveConnection, now: number): boolean {
    const { message } = pending;
    const properties = checkMessage(message, {
      maxMessageBytes: this.#publisher.maxMessageBytes ?? Number.POSITIVE_INFINITY,
      frameMax: live.frameMax,
    });
    if (properties instanceof RabbitmqError) {
      this.#publisher.settle(pending, failed(properties));
      return true;
    }
    properties.mandatory = this.#settings.mandatory;
    try {
      const more = channel.publish(this.#name, message.messageType, message.body, properties, (error: unknown) =>
        this.#onConfirm(pending, error),
      );
      if (!more) this.#full = true;
    } catch (error) {
      if (error instanceof Error && error.name === 'IllegalOperationError') return false;
      this.#publisher.settle(pending, failed(error));
      return true;
    }
    pending.state = 'sent';
    pending.sentAt = now;
    this.#unconfirmed.set(message.messageId, pending);
    this.#unconfirmedBytes += message.body.length;
    return true;
  }

  #onConfirm(pending: PendingMessage, error: unknown): void {
    // Otherwise the channel has ended, and its 'close' follows with a better reason.
    if (error instanceof Error && error.message !== 'message nacked') return;
    if (pending.state === 'settled') {
      this.#abandoned -= 1;
    } else {
      this.#forget(pending);
      if (error instanceof Error) {
        this.#publisher.settle(pending, failed(error, `the broker refused the message (full or unavailable queue)`));
      } else if (pending.returned) {
        const nobody = `no queue is bound to exchange "${this.#name}" for "${pending.message.messageType}"`;
        this.#publisher.settle(pending, failed(notReady, nobody));
      } else {
        this.#publisher.settle(pending, confirmed);
        this.#log.succeeded();
      }
    }
    this.#schedulePump();
  }

  #forget(pending: PendingMessage): void {
    this.#unconfirmed.delete(pending.message.messageId);
    this.#unconfirmedBytes -= pending.message.body.length;
    if (this.#oneByOne > 0) this.#oneByOne -= 1;
  }

  #timeOut(): void {
    this.#timer = undefined;
    const { confirmTimeoutMs } = this.#settings;
    const now = performance.now();
    for (const pending of this.#unconfirmed.values()) {
      const left = pending.sentAt + confirmTimeoutMs - now;
      if (left > 0) {
        this.#timer = setTimeout(() => this.#timeOut(), left);
        break;
      }
      this.#forget(pending);
      this.#abandoned += 1;
      const blocked = this.#publisher.blockedByBroker;
      const { Throttled, TransportException } = MessageFailureReason;
      this.#publisher.settle(
        pending,
        failed(
          { reason: blocked ? Throttled : TransportException, retryable: true },
          `the broker did not confirm within ${confirmTimeoutMs} ms${blocked ? ', it has stopped taking messages' : ''}`,
        ),
      );
    }
    if (this.#abandoned >= this.#settings.publishWindow && this.#unconfirmed.size === 0) {
      void this.#channel?.close().catch(() => undefined);
    }
  }

  #open(live: LiveConnection): void {
    if (this.#refused !== undefined && performance.now() < this.#refused.until) {
      this.#failAll(this.#refused.error);
      return;
    }
    this.#refused = undefined;
    this.#state = 'opening';
    const opening = this.#declareAndOpen(live);
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
        if (error instanceof RabbitmqError) {
          this.#log.failed(error.message);
          this.#refused = { error, until: performance.now() + refusalHoldsMs };
          this.#failAll(error);
        } else {
          // No answer, so nothing is known about the destination, and nothing was sent.
          for (const pending of this.#takeQueue()) this.#publisher.release(pending);
        }
      },
    );
  }

  async #declareAndOpen(live: LiveConnection): Promise<ConfirmChannel> {
    if (this.#declaredOn !== live) await ensureExchange(live, this.#name, this.#settings);
    this.#declaredOn = live;
    const channel = await live.model.createConfirmChannel();
    this.#channelError = undefined;
    this.#full = false;
    this.#abandoned = 0;
    channel.on('error', (error) => (this.#channelError = error));
    channel.on('drain', () => {
      this.#full = false;
      this.#schedulePump();
    });
    channel.on('return', ({ properties }) => {
      const pending = this.#unconfirmed.get(String(properties.messageId));
      if (pending !== undefined) pending.returned = true;
    });
    channel.on('close', () => {
      this.#channel = undefined;
      if (this.#state === 'open') this.#state = 'opening';
      // The reason of a closed connection comes after the 'close' of its channels.
      setImmediate(() => this.#onClosed(live));
    });
    return channel;
  }

  #onClosed(live: LiveConnection): void {
    this.#state = 'closed';
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const unconfirmed = [...this.#unconfirmed.values()];
    this.#unconfirmed.clear();
    this.#unconfirmedBytes = 0;
    this.#oneByOne = 0;
    const error = this.#channelError ?? live.endedBy ?? new Error('channel closed');
    const culprits = this.#channelError === undefined ? unconfirmed : this.#culprits(unconfirmed, this.#channelError);
    const innocent = unconfirmed.filter((pending) => !culprits.includes(pending));
    for (const pending of culprits) {
      this.#publisher.settle(pending, failed(error, `not confirmed: ${error.message}`, 'inFlight'));
    }
    if (this.#channelError !== undefined && replyCode(error) === 403) this.#failAll(error);
    this.#sendAgain(innocent, live);
    this.#schedulePump();
  }

  /** Which of the unconfirmed messages the broker closed the channel for. The others, when it is none of them, go again. */
  #culprits(unconfirmed: PendingMessage[], error: Error): PendingMessage[] {
    const code = replyCode(error);
    this.#log.failed(error.message);
    if (code === 403) return unconfirmed;
    if (code === 404) {
      // Somebody has deleted the exchange. It is declared again, once for each message.
      this.#declaredOn = undefined;
      return unconfirmed.filter((pending) => pending.maybeStored);
    }
    const limit = sizeLimitOf(error);
    if (limit !== undefined) {
      this.#publisher.learnMaxMessageBytes(limit);
      const tooLarge = unconfirmed.filter((pending) => pending.message.body.length > limit);
      if (tooLarge.length > 0) return tooLarge;
    }
    if (unconfirmed.length === 1) return unconfirmed;
    this.#oneByOne = unconfirmed.length;
    return [];
  }

  /**
   * What was behind the culprit the broker has ignored; what was before it may be stored. Sending all of it again gives at
   * worst duplicates; failing it would give the same duplicates later, and an attempt charged to messages that did no wrong.
   */
  #sendAgain(innocent: PendingMessage[], live: LiveConnection): void {
    for (const pending of innocent) {
      pending.maybeStored = true;
      pending.returned = false;
      pending.state = 'waiting';
      const mayGo = live.endedBy === undefined && this.#publisher.ready && !pending.call.signal.aborted;
      if (!mayGo) this.#publisher.release(pending);
    }
    this.#queue = [...innocent, ...this.#queue];
  }

  #failAll(error: Error): void {
    for (const pending of this.#takeQueue()) this.#publisher.settle(pending, failed(error));
  }

  #takeQueue(): PendingMessage[] {
    const queue = this.#queue;
    this.#queue = [];
    return queue;
  }
}

const confirmed: PublishOutcome = { kind: 'confirmed' };
const notReady: Classification = { reason: MessageFailureReason.TransportNotReady, retryable: true };

function failed(cause: unknown, sentence?: string, stage?: 'inFlight'): PublishOutcome {
  const known = cause instanceof Error ? classify(cause, stage) : (cause as Classification);
  const error =
    cause instanceof RabbitmqError
      ? cause
      : new RabbitmqError(sentence ?? (cause instanceof Error ? cause.message : 'failed'), known, {
          ...(cause instanceof Error ? { cause } : undefined),
        });
  return { kind: 'failed', reason: known.reason, retryable: known.retryable, error };
}
