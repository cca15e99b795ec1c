import type { Logger } from '../contract/logger.js';
import { MessageFailureReason, failureReasonName } from '../contract/message-failure-reason.js';
import type { ClosedKeys } from '../contract/work.js';
import { monotonicMs } from '../runtime/clock.js';

export interface BreakerOptions {
  readonly enabled: boolean;
  /** Failures in a row, of one reason, that open it. */
  readonly failureThreshold: number;
  /** First pause, doubled at every trial that fails. */
  readonly initialCooldownMs: number;
  readonly maxCooldownMs: number;
}

export interface BreakerState {
  readonly key: string;
  readonly reason: string;
  /** Milliseconds until a message is let through to find out; 0 while that trial is due or under way. */
  readonly retryInMs: number;
}

interface Breaker {
  reason: MessageFailureReason;
  fingerprint: string | undefined;
  /** The message that failed last. */
  messageId: string | undefined;
  failures: number;
  cooldownMs: number;
  /** When the next trial is due; `undefined` while closed. */
  openUntil: number | undefined;
  /** While a trial is out: when another is let through, should nothing be heard of it. */
  trialUntil: number | undefined;
  throttles: number;
}

const maxThrottles = 5;
const throttlePauseMs = 250;
const maxThrottlePauseMs = 4_000;

/**
 * A breaker per destination, or per message type. After repeated failures of one kind its rows are put off instead of
 * claimed, so that they spend no attempts, until a trial succeeds.
 */
export class Breakers {
  readonly #breakers = new Map<string, Breaker>();
  readonly #options: BreakerOptions;
  readonly #logger: Logger;
  readonly #what: string;

  /** @param what - `destination` or `messageType`: what the keys are, for the log */
  constructor(what: string, options: BreakerOptions, logger: Logger) {
    this.#what = what;
    this.#options = options;
    this.#logger = logger;
  }

  succeeded(key: string): void {
    const breaker = this.#breakers.get(key);
    if (breaker?.openUntil !== undefined) {
      this.#logger.info({ [this.#what]: key }, 'A breaker closed: it works again');
    }
    this.#breakers.delete(key);
  }

  /**
   * A try failed. Only different messages count, and only the same failure: neither one message that fails at each of its
   * retries nor five messages with five faults of their own say anything about the others.
   *
   * @param failure.fingerprint - what makes two failures of a reason the same; without one the reason alone does
   */
  failed(key: string, reason: MessageFailureReason, failure: { messageId?: string; fingerprint?: string } = {}): void {
    const { enabled, failureThreshold, initialCooldownMs, maxCooldownMs } = this.#options;
    if (!enabled) {
      return;
    }
    let breaker = this.#breakers.get(key);
    const { messageId, fingerprint } = failure;
    if (breaker === undefined || breaker.reason !== reason || breaker.fingerprint !== fingerprint) {
      breaker = {
        reason,
        fingerprint,
        messageId: undefined,
        failures: 0,
        cooldownMs: initialCooldownMs,
        openUntil: breaker?.openUntil,
        trialUntil: undefined,
        throttles: breaker?.throttles ?? 0,
      };
      this.#breakers.set(key, breaker);
    }
    const again = messageId !== undefined && messageId === breaker.messageId;
    breaker.messageId = messageId;
    breaker.failures += again ? 0 : 1;
    if (breaker.openUntil !== undefined && monotonicMs() < breaker.openUntil) {
      return; // What was in hand when it opened says nothing new.
    }
    if (breaker.openUntil !== undefined || breaker.failures >= failureThreshold) {
      const first = breaker.openUntil === undefined;
      breaker.openUntil = monotonicMs() + breaker.cooldownMs;
      breaker.trialUntil = undefined;
      breaker.cooldownMs = Math.min(breaker.cooldownMs * 2, maxCooldownMs);
      if (first) {
        this.#logger.warn(
          { [this.#what]: key, reason: failureReasonName(reason), failures: breaker.failures },
          'A breaker opened: the same failure again and again; its messages wait, and spend no attempts',
        );
      }
    }
  }

  /**
   * The broker asked for a slower pace. The first few times the destination pauses for a moment (250 ms, doubled, at the most
   * 4 s) and nothing is recorded.
   *
   * @returns whether that was it; false when it has been throttled too often and counts as a failure
   */
  throttled(key: string, retryAfterMs = 0): boolean {
    const breaker = this.#breakers.get(key);
    const times = breaker?.throttles ?? 0;
    if (breaker?.openUntil !== undefined && monotonicMs() < breaker.openUntil) {
      return times < maxThrottles;
    }
    if (times >= maxThrottles) {
      return false;
    }
    const pauseMs = Math.max(
      Math.min(throttlePauseMs * 2 ** times, maxThrottlePauseMs),
      // What a broker asks for is believed up to the longest pause of a breaker.
      Number.isFinite(retryAfterMs) ? Math.min(retryAfterMs, this.#options.maxCooldownMs) : 0,
    );
    this.#breakers.set(key, {
      reason: MessageFailureReason.Throttled,
      fingerprint: undefined,
      messageId: undefined,
      failures: 0,
      cooldownMs: this.#options.initialCooldownMs,
      openUntil: monotonicMs() + pauseMs,
      trialUntil: undefined,
      throttles: times + 1,
    });
    return true;
  }

  /** Rows of these keys are in hand: where one was let through as a trial, no other is until it has ended. */
  handedOut(keys: readonly string[]): void {
    if (this.#breakers.size === 0) {
      return;
    }
    const now = monotonicMs();
    for (const key of new Set(keys)) {
      const breaker = this.#breakers.get(key);
      if (breaker?.openUntil !== undefined && now >= breaker.openUntil) {
        // A trial may end without a word, released at a shutdown or an outage.
        breaker.trialUntil = now + Math.max(breaker.cooldownMs, 1_000);
      }
    }
  }

  /** What claims are to put off, and for how long. */
  closed(): ClosedKeys {
    const keys: string[] = [];
    const seconds: number[] = [];
    const trials: boolean[] = [];
    for (const [key, breaker] of this.#breakers) {
      if (breaker.openUntil !== undefined) {
        const waitMs = breaker.openUntil - monotonicMs();
        keys.push(key);
        // While a trial is out, the others wait for its end, about as long as a trial takes.
        seconds.push((waitMs > 0 ? waitMs : 1_000) / 1000);
        trials.push(waitMs <= 0 && monotonicMs() >= (breaker.trialUntil ?? 0));
      }
    }
    return { keys, seconds, trials };
  }

  /** The breakers that are open. */
  states(): readonly BreakerState[] {
    return [...this.#breakers].flatMap(([key, breaker]) =>
      breaker.openUntil === undefined
        ? []
        : [
            {
              key,
              reason: failureReasonName(breaker.reason),
              retryInMs: Math.max(0, Math.round(breaker.openUntil - monotonicMs())),
            },
          ],
    );
  }
}
