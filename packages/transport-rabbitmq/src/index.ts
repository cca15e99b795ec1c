export { createTransport } from './rabbitmq-transport.js';
export { type RabbitmqTransportOptions } from './options.js';
export type { TlsOptions } from '@whizbang/core/transport';
