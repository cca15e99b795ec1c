import type { FaultBrokerKind } from '../fault-broker.js';
import { inProcess } from './in-process.js';
import { rabbitmq } from './rabbitmq.js';

/** Every transport that faults are done to. */
export const faultBrokers: readonly FaultBrokerKind[] = [inProcess, rabbitmq];
