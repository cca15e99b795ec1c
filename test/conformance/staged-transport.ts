import { type OutgoingMessage, type PublishOutcome, type Transport, silentLogger } from '@whizbang/core/transport';
import { Arrivals, within } from './deadline.js';

/** A transport under test, with what it has told about its readiness. */
export class StagedTransport {
  readonly transport: Transport;
  readonly readiness: Arrivals<{ readonly ready: boolean; readonly cause: Error | undefined }>;
  readonly #deadlineMs: number;

  constructor(transport: Transport, deadlineMs: number) {
    this.transport = transport;
    this.#deadlineMs = deadlineMs;
    this.readiness = new Arrivals(deadlineMs);
  }

  connect(): Promise<void> {
    const connected = this.transport.connect({
      logger: silentLogger,
      onReadyChange: (ready, cause) => this.readiness.push({ ready, cause }),
    });
    return within(this.#deadlineMs, 'connect resolves', connected);
  }

  /** Waits until the transport is, and has said that it is, ready or not. */
  async untilReady(ready: boolean): Promise<void> {
    await this.readiness.until(
      `onReadyChange(${ready}) and ready() agree`,
      (changes) => this.transport.ready() === ready && changes.at(-1)?.ready === ready,
    );
  }

  publish(
    batch: readonly OutgoingMessage[],
    signal: AbortSignal = new AbortController().signal,
  ): Promise<PublishOutcome[]> {
    return within(
      this.#deadlineMs,
      `publish of ${batch.length} messages resolves`,
      this.transport.publish(batch, signal),
    );
  }

  close(): Promise<void> {
    return within(this.#deadlineMs, 'close resolves', this.transport.close());
  }
}
