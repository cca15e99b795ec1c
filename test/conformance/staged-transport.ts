import { inspect } from 'node:util';
import type { Logger, OutgoingMessage, PublishOutcome, Transport } from '@whizbang/core/transport';
import { Arrivals, within } from './deadline.js';

/** A transport under test, with what it has told about its readiness. */
export class StagedTransport {
  readonly transport: Transport;
  readonly readiness: Arrivals<{ readonly ready: boolean; readonly cause: Error | undefined }>;
  readonly logged: Arrivals<{ readonly level: keyof Logger; readonly text: string }>;
  readonly #deadlineMs: number;

  constructor(transport: Transport, deadlineMs: number) {
    this.transport = transport;
    this.#deadlineMs = deadlineMs;
    this.readiness = new Arrivals(deadlineMs);
    this.logged = new Arrivals(deadlineMs);
  }

  connect(): Promise<void> {
    const connected = this.transport.connect({
      logger: this.#logger(),
      onReadyChange: (ready, cause) => this.readiness.push({ ready, cause }),
    });
    return within(this.#deadlineMs, 'connect resolves', connected);
  }

  #logger(): Logger {
    const keep = (level: keyof Logger) => (fields: object, message: string) =>
      this.logged.push({ level, text: `${message} ${inspect(fields)}` });
    return { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') };
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
