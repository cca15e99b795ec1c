import { kafka } from './kafka.js';
import { rabbitmq } from './rabbitmq.js';
import type { BrokerKind } from './scenario-broker.js';
import { servicebus } from './servicebus.js';

/** Every broker that the scenarios run on. */
export const brokers: readonly BrokerKind[] = [rabbitmq, kafka, servicebus];
