/**
 * The entry for transport adapters. An adapter imports this and nothing else of core.
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
