import {
  type Logger,
  type OutgoingMessage,
  type PublishCall,
  PublishCalls,
  type PublishOutcome,
  notAttempted,
} from '@whizbang/core/transport';
import type { ConnectionListener } from './connection.js';
import type { LiveConnection } from './live-connection.js';
import { DestinationSender } from './destination-sender.js';
import { GroupSend, type SendDesk } from './group-send.js';
import { encodeMessage } from './outgoing.js';
import { Lane } from './lane.js';
import type { ServicebusSettings } from './options.js';
import type { PendingMessage } from './pending-message.js';
import { SendSlots } from './send-slots.js';
import { SessionIds } from './session-ids.js';
import type { Topology } from './topology.js';

/**
 * Publishes batches over one connection. Messages of a session go out in lanes, one group after another, and many lanes at
 * the same time.
 */
export class Publisher implements ConnectionListener, SendDesk {
  readonly #settings: ServicebusSettings;
  readonly #topology: Topology;
  readonly #logger: Logger;
  readonly #onReadyChange: (ready: boolean, cause?: Error) => void;
  readonly #sessionIds: SessionIds;
  readonly #slots: SendSlots;
  readonly #lanes = new Map<string, Lane>();
  readonly #destinations = new Map<string, DestinationSender>();
  readonly #calls = new PublishCalls<PendingMessage>(
    (pending) => this.settle(pending, notAttempted),
    () => this.#announcePause(),
  );
  #live: LiveConnection | undefined;
  #closed = false;
  #announcedLimit: number | undefined;
  #pause: { readonly cause: Error; readonly timer: NodeJS.Timeout; announced: boolean } | undefined;

  constructor(
    settings: ServicebusSettings,
    topology: Topology,
    logger: Logger,
    onReadyChange: (ready: boolean, cause?: Error) => void,
  ) {
    this.#settings = settings;
    this.#topology = topology;
    this.#logger = logger;
    this.#onReadyChange = onReadyChange;
    this.#sessionIds = new SessionIds(settings);
    this.#slots = new SendSlots(settings.maxConcurrentSends);
  }

  get live(): LiveConnection | undefined {
    return this.#live?.endedBy === undefined ? this.#live : undefined;
  }

  get ready(): boolean {
    return this.#live !== undefined && !this.#closed && this.#pause?.announced !== true;
  }

  get paused(): boolean {
    return this.#pause !== undefined;
  }

  /** Null until the broker has announced one. */
  get maxMessageBytes(): number | null {
    return this.#settings.maxMessageBytes ?? this.#announcedLimit ?? null;
  }

  up(live: LiveConnection): void {
    this.#live = live;
    if (this.ready) this.#onReadyChange(true);
  }

  down(cause: Error): void {
    this.#live = undefined;
    this.#calls.releaseUnsent();
    this.#onReadyChange(false, cause);
  }

  publish(batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<PublishOutcome[]> {
    if (!this.ready || this.paused || signal.aborted || batch.length === 0) {
      return Promise.resolve(batch.map(() => notAttempted));
    }
    const { call, outcomes } = this.#calls.begin(batch.length, signal);
    for (const [index, message] of batch.entries()) this.#enter(call, index, message);
    return outcomes;
  }

  /** Records the outcome of a message; when it is not confirmed, what waits of its stream goes back. */
  settle(pending: PendingMessage, outcome: PublishOutcome): void {
    if (pending.state === 'settled') return;
    pending.state = 'settled';
    const { streamId } = pending.message;
    if (outcome.kind !== 'confirmed' && streamId !== null) {
      for (const behind of pending.lane.cut(streamId)) {
        behind.state = 'settled';
        behind.call.settled(behind.index, notAttempted);
      }
    }
    pending.call.settled(pending.index, outcome);
  }

  destination(name: string): DestinationSender {
    let destination = this.#destinations.get(name);
    if (destination === undefined) {
      destination = new DestinationSender(name, this.#settings, this.#topology, this.#logger);
      this.#destinations.set(name, destination);
    }
    return destination;
  }

  learnLimit(bytes: number): void {
    this.#announcedLimit = Math.max(this.#announcedLimit ?? 0, bytes);
  }

  /**
   * The broker has asked everybody in the namespace for a slower pace: nothing is sent for so long. That is told through
   * `ready` only after the messages concerned have their outcomes, so that they are recorded as throttled, and not as
   * caught by an outage.
   */
  pause(ms: number, cause: Error): void {
    if (this.#pause !== undefined) return;
    const timer = setTimeout(() => this.#endPause(), ms);
    this.#pause = { cause, timer, announced: false };
    this.#logger.warn({ pauseMs: ms }, `Service Bus throttles the namespace; nothing is sent for ${ms} ms`);
    this.#calls.releaseUnsent();
    this.#announcePause();
  }

  suspect(live: LiveConnection): void {
    void live.check();
  }

  /** Sends nothing more, and waits up to `ms` for the answers to what was sent. */
  async close(ms: number): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#pause?.timer);
    this.#calls.releaseUnsent();
    await this.#calls.ended(ms);
  }

  #announcePause(): void {
    const pause = this.#pause;
    if (pause === undefined || pause.announced || this.#calls.size > 0) return;
    // After whoever awaits the outcomes has looked at `ready`.
    setImmediate(() => {
      if (this.#pause !== pause || this.#live === undefined || this.#closed) return;
      pause.announced = true;
      this.#onReadyChange(false, pause.cause);
    });
  }

  #endPause(): void {
    this.#pause = undefined;
    if (this.ready) this.#onReadyChange(true);
  }

  #enter(call: PublishCall<PendingMessage>, index: number, message: OutgoingMessage): void {
    const sessionId = this.#sessionIds.sessionOf(message);
    const encoded = encodeMessage(message, sessionId, this.#settings.maxMessageBytes);
    const key = sessionId === undefined ? `to ${message.destination}` : `in ${sessionId}`;
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      lane = new Lane();
      this.#lanes.set(key, lane);
      void this.#run(key, lane);
    }
    const pending: PendingMessage = { message, encoded, lane, call, index, state: 'waiting' };
    call.messages.push(pending);
    lane.add(pending);
  }

  /** Sends a lane empty. */
  async #run(key: string, lane: Lane): Promise<void> {
    // The rest of the batch enters in this turn.
    await Promise.resolve();
    while (lane.first() !== undefined) {
      await this.#slots.acquire();
      try {
        await new GroupSend(lane, this, this.#settings).run();
      } finally {
        this.#slots.release();
      }
    }
    this.#lanes.delete(key);
  }
}
