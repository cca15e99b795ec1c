import { confirmed } from '@whizbang/core/transport';
import type { ConfirmChannel } from 'amqplib';
import type { LiveConnection } from './connection.js';
import { byName, byReplyCode } from './classification.js';
import { RabbitmqError, classify } from './errors.js';
import type { RabbitmqSettings } from './options.js';
import { type PendingMessage, type PublishDesk, failed } from './pending-message.js';
import { checkMessage } from './precheck.js';
import { UnconfirmedMessages } from './unconfirmed-messages.js';

export interface PublishChannelListener {
  /** A message has been answered for, or there is room again. */
  onProgress(wasConfirmed: boolean): void;
  /** A message was not confirmed in time. */
  onTimeout(channel: PublishChannel): void;
  /** The channel has ended with these messages unconfirmed; `closedBy` is the broker's reason, if it closed this channel. */
  onEnded(channel: PublishChannel, unconfirmed: PendingMessage[], closedBy: Error | undefined): void;
}

/** One channel to one exchange: sends, and attributes confirms, nacks, returns and deadlines to their messages. */
export class PublishChannel {
  readonly live: LiveConnection;
  readonly #channel: ConfirmChannel;
  readonly #exchange: string;
  readonly #settings: RabbitmqSettings;
  readonly #desk: PublishDesk;
  readonly #listener: PublishChannelListener;
  readonly #unconfirmed: UnconfirmedMessages;
  /** amqplib's buffer is full until 'drain'. */
  #full = false;
  #retired = false;

  private constructor(
    live: LiveConnection,
    channel: ConfirmChannel,
    exchange: string,
    settings: RabbitmqSettings,
    desk: PublishDesk,
    listener: PublishChannelListener,
  ) {
    this.live = live;
    this.#channel = channel;
    this.#exchange = exchange;
    this.#settings = settings;
    this.#desk = desk;
    this.#listener = listener;
    this.#unconfirmed = new UnconfirmedMessages(settings.publishWindow, settings.confirmTimeoutMs, (pending) =>
      this.#onTimeout(pending),
    );
    this.#listen();
  }

  static async open(
    live: LiveConnection,
    exchange: string,
    settings: RabbitmqSettings,
    desk: PublishDesk,
    listener: PublishChannelListener,
  ): Promise<PublishChannel> {
    return new PublishChannel(live, await live.model.createConfirmChannel(), exchange, settings, desk, listener);
  }

  get unconfirmedCount(): number {
    return this.#unconfirmed.size;
  }

  hasRoomFor({ message }: PendingMessage): boolean {
    // Returned messages are told apart by their id, so there is one of an id at a time.
    return !this.#full && this.#unconfirmed.hasRoom() && !this.#unconfirmed.has(message.messageId);
  }

  /** Sends a message, or settles it when it cannot be sent. False when the channel is closing: nothing was done then. */
  send(pending: PendingMessage, now: number): boolean {
    const { message } = pending;
    const properties = checkMessage(
      message,
      this.#desk.maxMessageBytes ?? Number.POSITIVE_INFINITY,
      this.live.frameMax,
    );
    if (properties instanceof RabbitmqError) {
      this.#desk.settle(pending, failed(properties, properties));
      return true;
    }
    properties.mandatory = this.#settings.mandatory;
    try {
      this.#full = !this.#channel.publish(
        this.#exchange,
        message.messageType,
        message.body,
        properties,
        (error: unknown) => this.#onAnswer(pending, error),
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

  /** Nothing more is sent on it; it is closed when all that was sent is answered for or has timed out. */
  retire(): void {
    this.#retired = true;
    this.#closeWhenDone();
  }

  #listen(): void {
    let closedBy: Error | undefined;
    this.#channel.on('error', (error) => (closedBy = error));
    this.#channel.on('drain', () => {
      this.#full = false;
      this.#listener.onProgress(false);
    });
    this.#channel.on('return', ({ properties }) => {
      const pending = this.#unconfirmed.get(String(properties.messageId));
      if (pending !== undefined) pending.returned = true;
    });
    this.#channel.on('close', () => {
      this.#full = true;
      // The reason of a closed connection comes after the 'close' of its channels.
      setImmediate(() => this.#listener.onEnded(this, this.#unconfirmed.takeAll(), closedBy));
    });
  }

  #onAnswer(pending: PendingMessage, error: unknown): void {
    // Otherwise the channel has ended, and its 'close' follows with a better reason.
    if (error instanceof Error && error.message !== 'message nacked') return;
    if (!this.#unconfirmed.remove(pending)) return;
    if (error instanceof Error) {
      const sentence = 'the broker refused the message: a queue is full or unavailable';
      this.#desk.settle(pending, failed(classify(error), sentence));
    } else if (pending.returned) {
      const sentence = `no queue is bound to exchange "${this.#exchange}" for "${pending.message.messageType}"`;
      this.#desk.settle(pending, failed(byReplyCode[312], sentence));
    } else {
      this.#desk.settle(pending, confirmed);
    }
    this.#listener.onProgress(!(error instanceof Error));
    this.#closeWhenDone();
  }

  #onTimeout(pending: PendingMessage): void {
    const blocked = this.#desk.blockedByBroker;
    const sentence = `the broker did not confirm within ${this.#settings.confirmTimeoutMs} ms; the outcome is unknown`;
    this.#desk.settle(
      pending,
      failed(
        blocked ? byName.blocked : byName.confirmTimeout,
        blocked ? `${sentence} (it has stopped taking messages)` : sentence,
      ),
    );
    this.#listener.onTimeout(this);
    this.#closeWhenDone();
  }

  #closeWhenDone(): void {
    if (!this.#retired || this.#unconfirmed.size > 0) return;
    // Throws at once when it is closed already, rejects when the connection goes.
    void Promise.resolve()
      .then(() => this.#channel.close())
      .catch(() => undefined);
  }
}
