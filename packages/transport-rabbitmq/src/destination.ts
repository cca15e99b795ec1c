import { FailureLog, type Logger, within } from '@whizbang/core/transport';
import type { LiveConnection } from './connection.js';
import { findCulprits } from './culprits.js';
import { RabbitmqError, classify, replyCode, sizeLimitOf } from './errors.js';
import type { RabbitmqSettings } from './options.js';
import { type PendingMessage, type PublishDesk, failed } from './pending-message.js';
import { PublishChannel, type PublishChannelListener } from './publish-channel.js';
import { ensureExchange } from './topology.js';

// A refused destination is not asked again for this long, so that refusals cost no round trips.
const refusalHoldsMs = 1000;

/** What is to be published to one exchange: its queue here, and the channel for it, which is replaced when it ends. */
export class Destination implements PublishChannelListener {
  readonly #name: string;
  readonly #settings: RabbitmqSettings;
  readonly #desk: PublishDesk;
  readonly #log: FailureLog;
  #queue: PendingMessage[] = [];
  #channel: PublishChannel | undefined;
  #opening = false;
  /** The connection on which the exchange is known to exist. */
  #declaredOn: LiveConnection | undefined;
  #refused: { readonly error: Error; readonly until: number } | undefined;
  /** So many messages are sent one by one, to find the one for which the broker closes the channel. */
  #oneByOne = 0;
  #pumpScheduled = false;

  constructor(name: string, settings: RabbitmqSettings, desk: PublishDesk, logger: Logger) {
    this.#name = name;
    this.#settings = settings;
    this.#desk = desk;
    this.#log = new FailureLog(logger, `publishing to exchange "${name}"`);
  }

  enqueue(pending: PendingMessage): void {
    this.#queue.push(pending);
    this.#schedulePump();
  }

  onProgress(wasConfirmed: boolean): void {
    if (wasConfirmed) this.#log.succeeded();
    this.#schedulePump();
  }

  /**
   * The channel is replaced: amqplib keeps what is never confirmed as long as the channel lives, so one queue without a
   * leader behind this exchange would fill the memory.
   */
  onTimeout(channel: PublishChannel): void {
    this.#log.failed(`no confirm within ${this.#settings.confirmTimeoutMs} ms`);
    if (channel !== this.#channel) return;
    this.#channel = undefined;
    channel.retire();
    this.#schedulePump();
  }

  onEnded(channel: PublishChannel, unconfirmed: PendingMessage[], closedBy: Error | undefined): void {
    if (channel === this.#channel) this.#channel = undefined;
    this.#oneByOne = 0;
    const { live } = channel;
    const cause = closedBy ?? live.endedBy ?? new Error('channel closed');
    const verdict = closedBy === undefined ? undefined : findCulprits(unconfirmed, closedBy);
    const { culprits, innocent } = verdict ?? { culprits: unconfirmed, innocent: [] };
    if (closedBy !== undefined) this.#learnFrom(closedBy);
    for (const pending of culprits) {
      this.#desk.settle(pending, failed(classify(cause, 'inFlight'), `not confirmed: ${cause.message}`, cause));
    }
    if (verdict?.wholeDestination) this.#refuse(cause);
    if (culprits.length === 0) this.#oneByOne = innocent.length;
    this.#sendAgain(innocent, live);
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
    if (live === undefined || this.#queue.length === 0) return;
    if (this.#channel === undefined) this.#open(live);
    const channel = this.#channel;
    if (channel === undefined) return;
    const now = performance.now();
    let taken = 0;
    for (const pending of this.#queue) {
      if (pending.state === 'waiting') {
        if (!channel.hasRoomFor(pending)) break;
        if (this.#oneByOne > 0) {
          if (channel.unconfirmedCount > 0) break;
          this.#oneByOne -= 1;
        }
        if (!channel.send(pending, now)) break;
      }
      taken += 1;
    }
    this.#queue = taken === this.#queue.length ? [] : this.#queue.slice(taken);
  }

  #open(live: LiveConnection): void {
    if (this.#opening) return;
    if (this.#refused !== undefined && performance.now() < this.#refused.until) {
      this.#failQueue(this.#refused.error);
      return;
    }
    this.#refused = undefined;
    this.#opening = true;
    const opening = this.#declareAndOpen(live);
    const { connectTimeoutMs } = this.#settings;
    within(opening, connectTimeoutMs, () => new Error(`opening a channel took more than ${connectTimeoutMs} ms`)).then(
      (channel) => {
        this.#opening = false;
        this.#channel = channel;
        this.#schedulePump();
      },
      (error: unknown) => {
        this.#opening = false;
        opening.then((channel) => channel.retire()).catch(() => undefined);
        if (error instanceof RabbitmqError) this.#refuse(error);
        // No answer, so nothing is known about the destination, and nothing was sent.
        else for (const pending of this.#takeQueue()) this.#desk.release(pending);
      },
    );
  }

  async #declareAndOpen(live: LiveConnection): Promise<PublishChannel> {
    if (this.#declaredOn !== live) await ensureExchange(live, this.#name, this.#settings);
    this.#declaredOn = live;
    return PublishChannel.open(live, this.#name, this.#settings, this.#desk, this);
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
