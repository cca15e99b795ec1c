export { createTransport } from './kafka-transport.js';
export { type KafkaTransportOptions, type SaslMechanism, type TlsOptions } from './options.js';
