import type { TcpGate } from '../../fixtures/network/tcp-gate.js';
import type { SeenMessage } from '../brokers/scenario-broker.js';
import type { Fault } from './fault.js';

/** A broker that faults are done to; nobody else uses it. */
export interface FaultBroker {
  /** Options of the transport, with short intervals. */
  readonly brokerOptions: Readonly<Record<string, unknown>>;
  /** What can be done to the broker itself. */
  readonly faults: readonly Fault[];
  /** A way of one's own to the broker. */
  way(): Promise<{ readonly url: string; readonly gate: TcpGate }>;
  /** Everything that the destination took, in the broker's order. To be called once, at the end. */
  seen(): Promise<readonly Pick<SeenMessage, 'messageId' | 'body'>[]>;
  /** What is left at the broker when all have stopped: connections, messages that nobody settled. */
  leftovers(): Promise<readonly string[]>;
  stop(): Promise<void>;
}

export interface FaultBrokerKind {
  /** For the names of tests. */
  readonly name: string;
  /** Undefined: in-process, where those who share a broker share a process. */
  start?(destination: string): Promise<FaultBroker>;
}
