export { createTransport } from './kafka-transport.js';
export { type KafkaTransportOptions, type SaslMechanism } from './options.js';
export type { TlsOptions } from '@whizbang/core/transport';
