import type { ServiceBusMessage } from '@azure/service-bus';
import type { PendingPublish, PublishOutcome } from '@whizbang/core/transport';
import { type Classification, ServicebusError, askedToWaitMs } from './errors.js';
import type { Lane } from './lane.js';

/** A message on its way through the publisher. */
export interface PendingMessage extends PendingPublish<PendingMessage> {
  /** What is sent for it, or why it can never be. */
  readonly encoded: ServiceBusMessage | ServicebusError;
  readonly lane: Lane;
}

/** @param error What to report: an error as it is, or a sentence, with what caused it. */
export function failed({ reason, retryable }: Classification, error: unknown, cause?: unknown): PublishOutcome {
  const reported =
    error instanceof Error ? error : new ServicebusError(String(error), { reason, retryable }, { cause });
  const retryAfterMs = error instanceof ServicebusError ? error.retryAfterMs : askedToWaitMs(error);
  return {
    kind: 'failed',
    reason,
    retryable,
    error: reported,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}
