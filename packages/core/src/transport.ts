/**
 * The entry for transport adapters: the contract, and what every adapter needs. An adapter imports this and nothing else of core.
 */
export {
  type ClassifiedCondition,
  type Delivery,
  type DeliveryHandler,
  type OutgoingMessage,
  type PublishOutcome,
  type SubscriptionRequest,
  type Transport,
  type TransportCapabilities,
  type TransportContext,
  type TransportFactory,
  type TransportSubscription,
  transportContractVersion,
} from './contract/transport.js';
export { type Logger, silentLogger } from './contract/logger.js';
export { MessageFailureReason, failureReasonName } from './contract/message-failure-reason.js';
export { ConfigurationError, WhizbangError, type WhizbangErrorCode, isWhizbangError } from './errors/whizbang-error.js';
export { maskSecrets } from './errors/mask-secrets.js';
export { Backoff } from './adapter/backoff.js';
export { FailureLog } from './adapter/failure-log.js';
export { type PendingPublish, PublishCall, PublishCalls, confirmed, notAttempted } from './adapter/publish-calls.js';
export { Readiness } from './adapter/readiness.js';
export { isTlsErrorCode } from './adapter/tls-error-code.js';
export {
  type OptionReader,
  type OptionTable,
  type TlsOptions,
  flag,
  oneOf,
  readOptions,
  tlsOptions,
  wholeNumber,
} from './adapter/transport-options.js';
export { carefulLogger } from './runtime/careful-logger.js';
export { pause, settlesWithin, within } from './runtime/clock.js';
