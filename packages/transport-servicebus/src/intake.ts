import type { CreditBudget } from './credit-budget.js';
import type { HeldDelivery } from './held-delivery.js';
import type { LockedMessages } from './locked-messages.js';

/** What a subscription or queue is received with. */
export interface IntakeSettings {
  /** Topic or queue. */
  readonly destination: string;
  /** The topic's subscription; undefined for a queue. */
  readonly subscription: string | undefined;
  readonly messageTypes: ReadonlySet<string>;
  readonly prefetch: number;
  readonly budget: CreditBudget;
  readonly lockRenewalMs: number;
  /** Messages in hand that came without a session; there may be some from before the last loss of the connection. */
  readonly locked: LockedMessages;
  readonly maxConcurrentSessions: number;
  /** Takes a delivery; those of one session come in its order. */
  deliver(held: HeldDelivery): void;
}

/** One subscription or queue, received over one connection. */
export interface Intake {
  /** Resolves with the cause when it has failed; it is to be closed then, and another one made. */
  readonly ended: Promise<Error>;
  /** True when it has nothing in hand: then silence may mean that there is nothing, or that it has gone deaf. */
  readonly idle: boolean;
  /** Gives everything back to the broker that is not settled. */
  close(): Promise<void>;
}
