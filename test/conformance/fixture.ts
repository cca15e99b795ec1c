import type { SubscriptionRequest, Transport, TransportCapabilities } from '@whizbang/core/transport';

/** What an adapter gives to the suite; everything else comes out of it. */
export interface TransportFixture {
  /** The mode of the broker or adapter that is under test, for the report: `classic`, `quorum`. */
  readonly mode: string;
  /** Only checks of these themes. Default: all that apply. */
  readonly themes?: readonly string[];
  /** What the transport must declare. It decides which checks run: what is not declared is tested to refuse cleanly. */
  readonly capabilities: TransportCapabilities;
  /** Longest wait for anything that should happen, in ms; also the longest that `publish` may take during an outage. Default 10,000. */
  readonly deadlineMs?: number;
  /** Connection strings and options that no waiting can mend. */
  readonly malformed?: readonly { readonly why: string; readonly create: () => Transport }[];
  /** A secret that occurs in all connection strings of `malformed`, and must not in any error or log. */
  readonly secret?: string;
  /** Called once, before the first check. */
  open?(): Promise<void>;
  /** A new transport to the same broker, not connected yet. */
  createTransport(): Promise<Transport>;
  /** Makes the broker unreachable for all transports while `during` runs, and reachable afterwards. */
  outage?(during: () => Promise<void>): Promise<void>;
  /** Kills the broker, without giving it time to write, and starts it again on the same data. */
  restart?(): Promise<void>;
  /** The same, and lets it stay away for so many ms. Takes as long; one mode of a broker is enough. */
  absence?(awayMs: number): Promise<void>;
  /** Connections stay open and nothing passes while `during` runs: nobody can tell whether the broker took a message. */
  stall?(during: () => Promise<void>): Promise<void>;
  /** The broker asks for a slower pace, or takes no messages at all, while `during` runs. */
  throttle?(during: () => Promise<void>): Promise<void>;
  /** Takes back what receivers have in hand, as a rebalance, a lost lock or a cut connection does; they may go on. */
  takeBack?(topology: Topology): Promise<void>;
  /** A transport whose credentials, with `secret` as the password, the broker refuses. */
  createRefused?(): Promise<Transport>;
  /** Looks into the broker by another way than the transport. */
  inspect?(destination: string): Promise<RawConsumer>;
  /** Creates destinations and the queues of services where the transport may not. */
  provide?(topology: Topology): Promise<void>;
  /** Removes what a check has left at the broker. */
  cleanUp?(names: { readonly destinations: readonly string[]; readonly services: readonly string[] }): Promise<void>;
  /** Called once, after the last check. */
  close?(): Promise<void>;
}

export type Topology = Pick<SubscriptionRequest, 'service' | 'bindings' | 'ordered'>;

export interface RawMessage {
  readonly messageId: string;
  readonly body: Buffer;
}

/** Reads everything that reaches a destination, from its creation on and in the order of the broker; survives outages. */
export interface RawConsumer {
  messages(): readonly RawMessage[];
  /** Called after every message. */
  onMessage(listener: () => void): void;
  close(): Promise<void>;
}
