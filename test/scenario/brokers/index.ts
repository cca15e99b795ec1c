import { rabbitmq } from './rabbitmq.js';
import type { BrokerKind } from './scenario-broker.js';

/** Every broker that the scenarios run on. */
export const brokers: readonly BrokerKind[] = [rabbitmq];
