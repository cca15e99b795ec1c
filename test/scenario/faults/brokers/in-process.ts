import type { FaultBrokerKind } from '../fault-broker.js';

/** In the process of those who use it; what is done to it they are told. */
export const inProcess: FaultBrokerKind = { name: 'in-process' };
