export { createTransport } from './servicebus-transport.js';
export type { ServicebusTransportOptions, TokenCredential } from './options.js';
