/**
 * The entry for applications.
 */
export { createWhizbang } from './create-whizbang.js';
export type { StopReport, Whizbang } from './whizbang.js';
export type {
  DeadLetterRecoveryOptions,
  DispatcherOptions,
  FailureOptions,
  MaintenanceOptions,
  PublisherOptions,
  ReceiverOptions,
  WakeupOptions,
  WhizbangOptions,
} from './options/whizbang-options.js';
export {
  type HandledPayloadOf,
  type MessageDefinition,
  type MessageOptions,
  type PayloadOf,
  defineMessage,
} from './contract/message-definition.js';
export type { MessageContext, PublishOptions } from './contract/message-context.js';
export type { HandlerTransaction, Transaction } from './contract/transaction.js';
export type { BatchHandler, Handler } from './dispatcher/handler-registry.js';
export { type MigrateOptions, type MigrateResult, migrate } from './database/migrate.js';
export { registerTransport } from './transports/transport-registry.js';
export { MessageFailureReason, failureReasonName } from './contract/message-failure-reason.js';
export { MessageProcessingStatus } from './contract/message-processing-status.js';
export { type Logger } from './contract/logger.js';
export type { Backlog } from './telemetry/backlog-gauges.js';
export type { WhizbangCounters } from './telemetry/instruments.js';
export {
  ConfigurationError,
  DatabaseUnavailableError,
  MessageRefusedError,
  SchemaError,
  StateError,
  TransportMissingError,
  WhizbangError,
  type WhizbangErrorCode,
  isWhizbangError,
} from './errors/whizbang-error.js';
export {
  type DeadLetter,
  type DeadLetterEntry,
  type DeadLetterRecoveryPolicy,
  DeadLetterRecoveryStatus,
  OperatorDisposition,
  type RecoveryPolicy,
  type StreamRecoveryMode,
} from './contract/dead-letter.js';
export type { StreamFailurePolicy } from './contract/work.js';
export {
  DefaultDeadLetterRecoveryPolicy,
  type DefaultRecoveryPolicyOptions,
  defaultPolicyByReason,
} from './dead-letters/default-recovery-policy.js';
export type {
  BulkOptions,
  BulkResult,
  DeadLetterFilter,
  DeadLetterOperations,
  DeadLetterPage,
} from './dead-letters/dead-letter-operations.js';
export { PartialFailure, PermanentError, RetryLater } from './failure/handler-errors.js';
export type { BreakerState } from './failure/breakers.js';
export type { Explanation } from './operations/explain.js';
export type { ServiceStatus, TableStatus } from './operations/service-status.js';
export type { DeadLetterCounters } from './telemetry/dead-letter-metrics.js';
