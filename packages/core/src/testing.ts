/**
 * The entry for tests of applications and adapters.
 */
export { type FaultOptions } from './testing/in-process-faults.js';
export { InProcessBroker } from './testing/in-process-broker.js';
export { type InProcessOptions } from './testing/in-process-options.js';
export { createInProcessTransport } from './testing/in-process-transport.js';
export { type StoredMessage } from './testing/service-queue.js';
