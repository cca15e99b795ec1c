import type { ServiceBusSessionReceiver } from '@azure/service-bus';
import { setMaxListeners } from 'node:events';
import { pause, within } from '@whizbang/core/transport';
import { classification } from './classification.js';
import { type LiveConnection, acceptTimeoutMs } from './live-connection.js';
import type { CreditBudget } from './credit-budget.js';
import { ServicebusError, isNoSession, textOf } from './errors.js';
import type { HeldDelivery } from './held-delivery.js';
import { HeldSession, type SessionHome } from './held-session.js';
import type { Intake, IntakeSettings } from './intake.js';

// So many accepts wait at the broker at a time; each time a session is granted, the next is asked for.
const maxAcceptors = 8;
const lookMs = 500;
// An accept that ends at once without a session must not be repeated at full speed.
const emptyHandedMs = 200;
// The broker answers an accept when its time is over; when it does not, it may be gone.
const overdueMs = 5000;

/** Receives from a subscription or queue that requires sessions: many sessions at a time, each in its order. */
export class SessionPool implements Intake, SessionHome {
  readonly destination: string;
  readonly messageTypes: ReadonlySet<string>;
  readonly budget: CreditBudget;
  readonly share: number;
  readonly lockRenewalMs: number;
  readonly ended: Promise<Error>;
  readonly #live: LiveConnection;
  readonly #settings: IntakeSettings;
  readonly #stopping = new AbortController();
  readonly #sessions = new Set<HeldSession>();
  /** For sessions held and accepts under way. */
  #freePlaces: number;
  readonly #placeAwaited = new Set<() => void>();
  readonly #timer: NodeJS.Timeout;
  #fail: (cause: Error) => void = () => undefined;
  #closing: Promise<void> | undefined;

  constructor(live: LiveConnection, settings: IntakeSettings) {
    this.#live = live;
    this.#settings = settings;
    this.destination = settings.destination;
    this.messageTypes = settings.messageTypes;
    this.budget = settings.budget;
    this.lockRenewalMs = settings.lockRenewalMs;
    this.share = Math.max(1, Math.floor(settings.prefetch / settings.maxConcurrentSessions));
    this.#freePlaces = settings.maxConcurrentSessions;
    this.ended = new Promise((resolve) => (this.#fail = resolve));
    setMaxListeners(0, this.#stopping.signal);
    // Each takes a credit of the budget along, and must leave some to the sessions.
    const acceptors = Math.min(maxAcceptors, this.#freePlaces, Math.max(1, Math.floor(settings.prefetch / 2)));
    for (let count = 0; count < acceptors; count += 1) void this.#keepAccepting();
    this.#timer = setInterval(() => {
      for (const session of this.#sessions) session.look();
    }, lookMs);
  }

  /** Somebody waits for a session to end before another can be accepted. */
  get crowded(): boolean {
    return this.#placeAwaited.size > 0 || this.budget.awaited;
  }

  get idle(): boolean {
    return this.#sessions.size === 0;
  }

  deliver(held: HeldDelivery): void {
    this.#settings.deliver(held);
  }

  sessionEnded(session: HeldSession): void {
    this.#sessions.delete(session);
    this.#freePlace();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#timer);
    await Promise.all([...this.#sessions].map((session) => session.close()));
  }

  async #keepAccepting(): Promise<void> {
    const { signal } = this.#stopping;
    while (await this.#place()) {
      if (!(await this.#credit())) return;
      const startedAt = performance.now();
      try {
        const receiver = await this.#accept();
        const session = new HeldSession(receiver, this);
        this.#sessions.add(session);
        if (signal.aborted) await session.close();
        else session.start();
      } catch (error) {
        this.#freePlace();
        this.budget.giveBack(1);
        if (signal.aborted) return;
        if (!isNoSession(error)) {
          this.#fail(error instanceof Error ? error : new Error(textOf(error)));
          return;
        }
        if (performance.now() - startedAt < emptyHandedMs) await pause(emptyHandedMs, signal);
      }
    }
  }

  async #accept(): Promise<ServiceBusSessionReceiver> {
    const { client } = this.#live;
    const { destination, subscription } = this.#settings;
    const options = {
      abortSignal: this.#stopping.signal,
      // The SDK does not say when it has failed to renew a lock.
      maxAutoLockRenewalDurationInMs: 0,
      skipParsingBodyAsJson: true,
      skipConvertingDate: true,
    };
    const accepting =
      subscription === undefined
        ? client.acceptNextSession(destination, options)
        : client.acceptNextSession(destination, subscription, options);
    try {
      return await within(accepting, acceptTimeoutMs + overdueMs, () => {
        return new ServicebusError('accepting a session was not answered', classification.communication);
      });
    } catch (error) {
      if (error instanceof ServicebusError) {
        accepting.then((late) => late.close()).catch(() => undefined);
        void this.#live.check();
      }
      throw error;
    }
  }

  async #place(): Promise<boolean> {
    const { signal } = this.#stopping;
    while (this.#freePlaces <= 0 && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          signal.removeEventListener('abort', wake);
          this.#placeAwaited.delete(wake);
          resolve();
        };
        this.#placeAwaited.add(wake);
        signal.addEventListener('abort', wake);
        this.#hurry();
      });
    }
    if (signal.aborted) return false;
    this.#freePlaces -= 1;
    return true;
  }

  #freePlace(): void {
    this.#freePlaces += 1;
    const [wake] = this.#placeAwaited;
    wake?.();
  }

  async #credit(): Promise<boolean> {
    const taking = this.budget.take(this.#stopping.signal);
    if (this.budget.awaited) this.#hurry();
    return taking;
  }

  #hurry(): void {
    for (const session of this.#sessions) session.hurry();
  }
}
