export { createTransport } from './rabbitmq-transport.js';
export { type RabbitmqTransportOptions, type TlsOptions } from './options.js';
