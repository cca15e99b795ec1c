import type { FaultBrokerKind } from '../fault-broker.js';
import { inProcess } from './in-process.js';
import { kafka } from './kafka.js';
import { rabbitmq } from './rabbitmq.js';
import { servicebus } from './servicebus.js';

/** Every transport that faults are done to. */
export const faultBrokers: readonly FaultBrokerKind[] = [inProcess, rabbitmq, kafka, servicebus];
