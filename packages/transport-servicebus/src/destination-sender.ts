import type { ServiceBusSender } from '@azure/service-bus';
import { FailureLog, type Logger, within } from '@whizbang/core/transport';
import { setMaxListeners } from 'node:events';
import { classification } from './classification.js';
import type { LiveConnection } from './live-connection.js';
import { ServicebusError, classify, textOf } from './errors.js';
import type { ServicebusSettings } from './options.js';
import { onLinkLost } from './sdk-internals.js';
import type { Topology } from './topology.js';

// A refused destination is not asked again for this long, so that refusals cost no round trips.
const refusalHoldsMs = 1000;

/** A link to one topic or queue. A new one is opened after each loss. */
export interface OpenSender {
  readonly sender: ServiceBusSender;
  /** The largest batch in bytes, as the broker announces it. */
  readonly maxBytes: number;
  /** Aborts when the link is lost. */
  readonly signal: AbortSignal;
  /** Set when it is lost: what the broker said, or what became of the connection. */
  readonly lostBy: Error | undefined;
}

/** The way to one topic or queue: created where it is missing, attached, and attached again after a loss. */
export class DestinationSender {
  readonly #name: string;
  readonly #settings: ServicebusSettings;
  readonly #topology: Topology;
  readonly #log: FailureLog;
  #live: LiveConnection | undefined;
  #opening: Promise<OpenSender> | undefined;
  #refused: { readonly error: Error; readonly until: number } | undefined;

  constructor(name: string, settings: ServicebusSettings, topology: Topology, logger: Logger) {
    this.#name = name;
    this.#settings = settings;
    this.#topology = topology;
    this.#log = new FailureLog(logger, `publishing to ${settings.entity} "${name}"`);
  }

  /** @throws why nothing can be sent there at the moment; nothing has been sent then. */
  open(live: LiveConnection): Promise<OpenSender> {
    if (this.#refused !== undefined && performance.now() < this.#refused.until) {
      return Promise.reject(this.#refused.error);
    }
    if (this.#opening === undefined || this.#live !== live) {
      this.#live = live;
      const opening = this.#attachOrCreate(live);
      this.#opening = opening;
      opening.catch((error: unknown) => {
        this.forget(opening);
        if (live.endedBy === undefined) this.refuse(error instanceof Error ? error : new Error(textOf(error)));
      });
    }
    return this.#opening;
  }

  /** It works. */
  succeeded(): void {
    this.#log.succeeded();
  }

  /** It does not, and is not asked again for a moment. */
  refuse(error: Error): void {
    this.#log.failed(textOf(error));
    this.#refused = { error, until: performance.now() + refusalHoldsMs };
  }

  /** The next `open` attaches anew. */
  forget(opening: Promise<OpenSender> | undefined = this.#opening): void {
    if (opening === this.#opening) this.#opening = undefined;
  }

  async #attachOrCreate(live: LiveConnection): Promise<OpenSender> {
    try {
      return await this.#attach(live);
    } catch (error) {
      if (classify(error) !== classification.entityNotFound) throw error;
      await this.#topology.ensureDestination(this.#name, error);
      return this.#attach(live);
    }
  }

  async #attach(live: LiveConnection): Promise<OpenSender> {
    const { connectTimeoutMs, sendTimeoutMs } = this.#settings;
    const sender = live.client.createSender(this.#name);
    try {
      const batch = await within(
        sender.createMessageBatch({ abortSignal: live.signal }),
        Math.min(connectTimeoutMs, sendTimeoutMs),
        () => new ServicebusError(`attaching took more than ${connectTimeoutMs} ms`, classification.communication),
      );
      return this.#watch(live, sender, batch.maxSizeInBytes);
    } catch (error) {
      sender.close().catch(() => undefined);
      throw error;
    }
  }

  #watch(live: LiveConnection, sender: ServiceBusSender, maxBytes: number): OpenSender {
    const lost = new AbortController();
    // Every send under way listens to it.
    setMaxListeners(0, lost.signal);
    const open = { sender, maxBytes, signal: lost.signal, lostBy: undefined as Error | undefined };
    const lose = (cause: unknown): void => {
      if (open.lostBy !== undefined) return;
      const found = classify(cause);
      const because = found === classification.unknown ? classification.linkLost : found;
      const sentence = `the link was lost${cause === undefined || cause === null ? '' : `: ${textOf(cause)}`}`;
      open.lostBy = new ServicebusError(sentence, because, { cause });
      live.signal.removeEventListener('abort', ended);
      if (this.#live === live) this.forget();
      lost.abort();
      sender.close().catch(() => undefined);
    };
    const ended = (): void => lose(live.endedBy);
    onLinkLost(sender, lose);
    live.signal.addEventListener('abort', ended);
    return open;
  }
}
