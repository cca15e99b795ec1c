import {
  Backoff,
  FailureLog,
  type Logger,
  MessageFailureReason,
  type SubscriptionRequest,
  pause,
  settlesWithin,
} from '@whizbang/core/transport';
import { classification } from './classification.js';
import type { LiveConnection } from './live-connection.js';
import type { CreditBudget } from './credit-budget.js';
import { ServicebusError, classify, textOf } from './errors.js';
import type { HeldDelivery } from './held-delivery.js';
import type { Intake, IntakeSettings } from './intake.js';
import type { LockedMessages } from './locked-messages.js';
import { MessageIntake } from './message-intake.js';
import { type SequenceNumber, peek } from './open-receiver.js';
import type { ServicebusSettings } from './options.js';
import { SessionPool } from './session-pool.js';
import type { Topology } from './topology.js';

const closeMs = 1500;

/** Receives what a subscription wants of one destination, over one connection and all troubles on the way. */
export class BindingReceiver {
  readonly #live: LiveConnection;
  readonly #request: SubscriptionRequest;
  readonly #binding: SubscriptionRequest['bindings'][number];
  readonly #settings: ServicebusSettings;
  readonly #topology: Topology;
  readonly #log: FailureLog;
  readonly #logger: Logger;
  readonly #intakeSettings: IntakeSettings;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;
  /** Whether sessions are accepted. An unordered subscription that requires them all the same shows it by its refusal. */
  #bySession: boolean;
  #intake: Intake | undefined;
  #lastDeliveryAt = performance.now();

  constructor(
    live: LiveConnection,
    request: SubscriptionRequest,
    binding: SubscriptionRequest['bindings'][number],
    deps: {
      readonly settings: ServicebusSettings;
      readonly topology: Topology;
      readonly logger: Logger;
      readonly budget: CreditBudget;
      readonly locked: LockedMessages;
      deliver(held: HeldDelivery): void;
      established(): void;
    },
  ) {
    const { settings } = deps;
    this.#live = live;
    this.#request = request;
    this.#binding = binding;
    this.#settings = settings;
    this.#topology = deps.topology;
    this.#logger = deps.logger;
    const subscription = settings.entity === 'topic' ? request.service : undefined;
    this.#log = new FailureLog(deps.logger, `receiving from ${sourceName(binding.destination, subscription)}`);
    this.#bySession = settings.sessions && (request.ordered || settings.entity === 'queue');
    this.#intakeSettings = {
      destination: binding.destination,
      subscription,
      messageTypes: new Set(binding.messageTypes),
      prefetch: request.prefetch,
      budget: deps.budget,
      locked: deps.locked,
      lockRenewalMs: settings.lockRenewalMs,
      maxConcurrentSessions: settings.maxConcurrentSessions,
      deliver: (held) => {
        this.#lastDeliveryAt = performance.now();
        deps.deliver(held);
      },
    };
    live.signal.addEventListener('abort', () => void this.close(), { once: true });
    this.#running = this.#run(() => deps.established());
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#intake?.close();
    await settlesWithin(this.#running, closeMs);
  }

  async #run(established: () => void): Promise<void> {
    const { signal } = this.#stopping;
    const backoff = new Backoff(this.#settings.reconnectDelayMs, this.#settings.reconnectMaxDelayMs);
    while (!signal.aborted) {
      const startedAt = performance.now();
      try {
        const known = await this.#topology.ensureSubscription(this.#request, this.#binding);
        // Where nothing is created, what is missing shows by asking for a message.
        if (!known) await peek(this.#live, this.#intakeSettings);
        if (signal.aborted) return;
        established();
        const cause = await this.#receive();
        if (signal.aborted) return;
        if (performance.now() - startedAt > this.#settings.reconnectMaxDelayMs) backoff.reset();
        throw cause;
      } catch (error) {
        if (signal.aborted) return;
        if (this.#switchToSessions(error)) continue;
        this.#log.failed(this.#explain(error));
        // Somebody has to change the broker or the options first.
        if (classify(error).reason === MessageFailureReason.ValidationError) backoff.jumpToLongest();
      }
      await pause(backoff.next(), signal);
    }
  }

  /** @returns why it has ended */
  async #receive(): Promise<Error> {
    const Kind = this.#bySession ? SessionPool : MessageIntake;
    const intake = new Kind(this.#live, this.#intakeSettings);
    this.#intake = intake;
    this.#logger.debug({ destination: this.#binding.destination }, 'receiving');
    const done = new AbortController();
    try {
      return await Promise.race([intake.ended, this.#deafness(intake, done.signal)]);
    } finally {
      done.abort();
      await intake.close();
    }
  }

  /** Resolves when messages are there and none of them comes, which receivers of the SDK have been seen to end in. */
  async #deafness(intake: Intake, done: AbortSignal): Promise<Error> {
    const { silenceMs } = this.#settings;
    const signal = AbortSignal.any([done, this.#stopping.signal]);
    let seen: SequenceNumber;
    for (;;) {
      await pause(silenceMs, signal);
      if (signal.aborted) return new Error('closed');
      if (!intake.idle || performance.now() - this.#lastDeliveryAt < silenceMs) {
        seen = undefined;
        continue;
      }
      try {
        const waiting = await peek(this.#live, this.#intakeSettings, seen);
        if (waiting !== undefined && seen !== undefined && waiting.equals(seen)) {
          return new ServicebusError('messages are waiting and none arrives', classification.communication);
        }
        this.#log.succeeded();
        seen = waiting;
      } catch {
        await this.#live.check();
      }
    }
  }

  #switchToSessions(error: unknown): boolean {
    const requires = !this.#bySession && /requires? sessions|sessionful|non-sessionful/i.test(textOf(error));
    if (requires) this.#bySession = true;
    return requires;
  }

  #explain(error: unknown): string {
    const text = textOf(error);
    const found = classify(error);
    if (found === classification.entityNotFound && !(error instanceof ServicebusError)) {
      const why = this.#settings.declare ? 'cannot be created with this connection string' : 'declare is false';
      return `it is missing, and ${why}: ${text}`;
    }
    if (this.#bySession && found === classification.refused) {
      return `${text}. Ordered receiving needs a subscription or queue with RequiresSession, which is set when it is created; delete it once it is empty, or set sessions to false and receive in parallel`;
    }
    return text;
  }
}

function sourceName(destination: string, subscription: string | undefined): string {
  return subscription === undefined
    ? `queue "${destination}"`
    : `subscription "${subscription}" of topic "${destination}"`;
}
