import type { SeenMessage } from './broker-witness.js';

/** How many times faster the scenario of an outage goes by than the outage it stands for. */
export const outagePace = 15;

/** What a destination took, asked of the broker itself. It outlives the broker's absence. */
export interface OutageWitness {
  /** Everything so far, in the broker's order, once it holds so many different messages. */
  seen(messages: number): Promise<readonly SeenMessage[]>;
}

/** A broker that a scenario takes away and brings back, and what else differs from broker to broker in it. */
export interface OutageBroker {
  readonly url: string;
  /** Options of its transport, in which every interval is shortened by {@link outagePace}. */
  readonly brokerOptions: Readonly<Record<string, unknown>>;
  /** To be called before anything is published. */
  witness(destination: string): Promise<OutageWitness>;
  /** Resolves when a service receives: what is published from then on reaches it. */
  received(service: string): Promise<void>;
  /** Away at once, without a word to anybody. What it has confirmed is kept. */
  stop(): Promise<void>;
  /** Back under the same address. Resolves when it accepts connections. */
  start(): Promise<void>;
}
