/**
 * The conformance suite of transports: one function, a fixture in, everything out.
 */
export { type ConformanceCheck, applies } from './check.js';
export { conformanceChecks } from './checks.js';
export { describeTransport } from './describe-transport.js';
export { type RawConsumer, type RawMessage, type Topology, type TransportFixture } from './fixture.js';
