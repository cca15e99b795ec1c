import { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { PublishOutcome } from '../contract/transport.js';

export interface FaultOptions {
  /** What the publisher is told; by default a retryable `TransportException`. */
  readonly outcome?: PublishOutcome;
  /** True: the message is stored all the same, as when a confirmation is lost on its way. Default false. */
  readonly stored?: boolean;
}

interface PlannedFault {
  remaining: number;
  readonly outcome: PublishOutcome;
  readonly stored: boolean;
}

/** Failures that a test has ordered, first ordered first met, per destination. */
export class InProcessFaults {
  readonly #planned = new Map<string, PlannedFault[]>();

  plan(destination: string, count: number, options: FaultOptions): void {
    const fault = {
      remaining: count,
      outcome: options.outcome ?? failed(MessageFailureReason.TransportException, true, 'failure ordered by the test'),
      stored: options.stored ?? false,
    };
    const planned = this.#planned.get(destination);
    if (planned === undefined) this.#planned.set(destination, [fault]);
    else planned.push(fault);
  }

  /** Uses up one failure of the destination, when one is planned. */
  next(destination: string): { readonly outcome: PublishOutcome; readonly stored: boolean } | undefined {
    // Publishing is the hot path, and usually nothing is planned at all.
    if (this.#planned.size === 0) return undefined;
    const planned = this.#planned.get(destination);
    const fault = planned?.[0];
    if (planned === undefined || fault === undefined) return undefined;
    fault.remaining -= 1;
    if (fault.remaining <= 0) planned.shift();
    if (planned.length === 0) this.#planned.delete(destination);
    return fault;
  }

  clear(): void {
    this.#planned.clear();
  }
}

export function failed(reason: MessageFailureReason, retryable: boolean, text: string): PublishOutcome {
  return { kind: 'failed', reason, retryable, error: new Error(text) };
}
