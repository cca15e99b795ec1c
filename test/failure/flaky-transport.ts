import { MessageFailureReason } from '@whizbang/core';
import { createInProcessTransport } from '@whizbang/core/testing';
import type {
  DeliveryHandler,
  OutgoingMessage,
  PublishOutcome,
  SubscriptionRequest,
  Transport,
  TransportContext,
} from '@whizbang/core/transport';

type Refusal = Exclude<PublishOutcome, { kind: 'confirmed' }>;

export const broken: Refusal = {
  kind: 'failed',
  reason: MessageFailureReason.TransportException,
  retryable: true,
  error: new Error('the broker broke'),
};

/** The in-process transport with a say about each message, and a count of how often each was really tried. */
export class FlakyTransport implements Transport {
  readonly contractVersion;
  readonly name = 'flaky';
  readonly capabilities;
  readonly tries = new Map<string, number>();
  readonly #inner: Transport;
  readonly #refuse: (message: OutgoingMessage, tries: number) => Refusal | undefined;

  /** @param refuse - what becomes of a try, `undefined` for whatever the broker says; `tries` begins at 1 */
  constructor(brokerName: string, refuse: (message: OutgoingMessage, tries: number) => Refusal | undefined) {
    this.#inner = createInProcessTransport(`memory:${brokerName}`);
    this.contractVersion = this.#inner.contractVersion;
    this.capabilities = this.#inner.capabilities;
    this.#refuse = refuse;
  }

  connect(context: TransportContext): Promise<void> {
    return this.#inner.connect(context);
  }

  ready(): boolean {
    return this.#inner.ready();
  }

  async publish(batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<PublishOutcome[]> {
    const stopped = new Set<string>();
    const outcomes: PublishOutcome[] = [];
    for (const message of batch) {
      const outcome = await this.#publishOne(message, stopped, signal);
      if (outcome.kind !== 'confirmed' && message.streamId !== null) stopped.add(message.streamId);
      outcomes.push(outcome);
    }
    return outcomes;
  }

  subscribe(request: SubscriptionRequest, handler: DeliveryHandler) {
    return this.#inner.subscribe(request, handler);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  async #publishOne(message: OutgoingMessage, stopped: Set<string>, signal: AbortSignal): Promise<PublishOutcome> {
    if (message.streamId !== null && stopped.has(message.streamId)) return { kind: 'notAttempted' };
    const tries = (this.tries.get(message.messageId) ?? 0) + 1;
    this.tries.set(message.messageId, tries);
    const refusal = this.#refuse(message, tries);
    if (refusal !== undefined) return refusal;
    const [outcome] = await this.#inner.publish([message], signal);
    return outcome ?? { kind: 'notAttempted' };
  }
}
