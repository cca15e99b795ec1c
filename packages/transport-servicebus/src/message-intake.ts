import { settlesWithin } from '@whizbang/core/transport';
import type { ServiceBusReceivedMessage, ServiceBusReceiver } from '@azure/service-bus';
import type { LiveConnection } from './live-connection.js';
import { isWanted } from './held-delivery.js';
import type { Intake, IntakeSettings } from './intake.js';
import { openReceiver } from './open-receiver.js';
import { forgetSettlements } from './sdk-internals.js';

const lookMs = 500;
const closeMs = 1000;

/** Receives from a subscription or queue without sessions: message by message, shared with all who receive from it. */
export class MessageIntake implements Intake {
  readonly ended: Promise<Error>;
  readonly #settings: IntakeSettings;
  readonly #live: LiveConnection;
  readonly #receiver: ServiceBusReceiver;
  readonly #timer: NodeJS.Timeout;
  #flow: { close(): Promise<void> } | undefined;
  #closed = false;
  #closing: Promise<void> | undefined;

  constructor(live: LiveConnection, settings: IntakeSettings) {
    this.#live = live;
    this.#settings = settings;
    this.#receiver = openReceiver(live, settings);
    settings.locked.use({ receiver: this.#receiver, live });
    this.ended = new Promise((resolve) => {
      this.#flow = this.#receiver.subscribe(
        {
          processMessage: (message) => this.#take(message),
          // It would go on trying by itself, and tell of each attempt; it is simpler to make another one.
          processError: async ({ error }) => resolve(error),
        },
        { autoCompleteMessages: false, maxConcurrentCalls: settings.prefetch },
      );
    });
    this.#timer = setInterval(() => settings.locked.renew(), lookMs);
  }

  get idle(): boolean {
    return this.#settings.locked.size === 0;
  }

  /** What is in hand stays so over a loss of the connection; else it goes back. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#timer);
    if (this.#live.endedBy === undefined) {
      // Before the broker has stopped sending, it would send what is given back to this very receiver.
      await settlesWithin(this.#flow?.close() ?? Promise.resolve(), closeMs);
      await settlesWithin(this.#settings.locked.abandonAll(), closeMs);
    }
    this.#closed = true;
    forgetSettlements(this.#receiver);
    await settlesWithin(this.#receiver.close(), closeMs);
  }

  /** Resolves, and so lets the broker send another one, when the message is settled. */
  #take(message: ServiceBusReceivedMessage): Promise<void> {
    if (this.#closed) return new Promise(() => undefined);
    return new Promise((resolve) => {
      const held = this.#settings.locked.add(message, () => {
        if (!this.#closed) resolve();
      });
      if (isWanted(held.delivery, this.#settings.messageTypes)) this.#settings.deliver(held);
      else void held.complete();
    });
  }
}
