import {
  type Logger,
  type OutgoingMessage,
  type PublishCall,
  PublishCalls,
  type PublishOutcome,
  notAttempted,
} from '@whizbang/core/transport';
import type { ConnectionListener } from './connection.js';
import { Destination } from './destination.js';
import { KafkaError } from './errors.js';
import type { KafkaClient, Leaders } from './kafka-client.js';
import type { KafkaSettings } from './options.js';
import type { PublishDesk } from './partition-lane.js';
import { type PendingMessage, failed } from './pending-message.js';
import { type SizedRecord, encodeRecord } from './record.js';
import { StreamOrder } from './stream-order.js';
import { TopicDirectory } from './topic-directory.js';

const nothing: SizedRecord = { record: { key: null, value: Buffer.of(), headers: {} }, partitionKey: '', bytes: 0 };

/** Publishes batches: chooses partitions, and lets each have one batch in flight. */
export class Publisher implements ConnectionListener, PublishDesk {
  readonly #settings: KafkaSettings;
  readonly #onReadyChange: (ready: boolean, cause?: Error) => void;
  readonly #topics: TopicDirectory;
  readonly #destinations = new Map<string, Destination>();
  readonly #streams = new StreamOrder();
  readonly #calls = new PublishCalls<PendingMessage>((pending) => this.settle(pending, notAttempted));
  readonly #closing = new AbortController();
  #client: KafkaClient | undefined;

  constructor(
    settings: KafkaSettings,
    logger: Logger,
    onReadyChange: (ready: boolean, cause?: Error) => void = () => undefined,
  ) {
    this.#settings = settings;
    this.#onReadyChange = onReadyChange;
    this.#topics = new TopicDirectory(settings, logger, this.#closing.signal);
  }

  get client(): KafkaClient | undefined {
    return this.#client;
  }

  get ready(): boolean {
    return this.#client !== undefined && this.#client.endedBy === undefined && !this.#closing.signal.aborted;
  }

  up(client: KafkaClient): void {
    this.#client = client;
    this.#onReadyChange(true);
  }

  down(cause: Error): void {
    this.#client = undefined;
    this.#topics.forget();
    this.#calls.releaseUnsent();
    this.#onReadyChange(false, cause);
  }

  leaders(topic: string, refresh: boolean): Promise<Leaders> {
    if (this.#client === undefined) return Promise.reject(new KafkaError('not connected', 'unreachable'));
    return this.#topics.leaders(this.#client, topic, refresh);
  }

  publish(batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<PublishOutcome[]> {
    if (!this.ready || signal.aborted || batch.length === 0) return Promise.resolve(batch.map(() => notAttempted));
    const { call, outcomes } = this.#calls.begin(batch.length, signal);
    for (const [index, message] of batch.entries()) this.#admit(call, index, message);
    return outcomes;
  }

  /** Records the outcome of a message, and lets what follows it in its stream go or go back. */
  settle(pending: PendingMessage, outcome: PublishOutcome): void {
    if (pending.state === 'settled') return;
    pending.state = 'settled';
    pending.call.settled(pending.index, outcome);
    if (outcome.kind === 'confirmed') {
      for (const next of this.#streams.confirmed(pending)) this.#go(next);
      return;
    }
    for (const behind of this.#streams.cut(pending)) {
      if (behind.state === 'settled') continue;
      behind.state = 'settled';
      behind.call.settled(behind.index, notAttempted);
    }
  }

  /** Sends nothing more, and waits up to `ms` for the answers to what was sent. */
  async close(ms: number): Promise<void> {
    this.#closing.abort();
    this.#calls.releaseUnsent();
    await this.#calls.ended(ms);
  }

  #admit(call: PublishCall<PendingMessage>, index: number, message: OutgoingMessage): void {
    const sized = encodeRecord(message, this.#settings);
    const pending: PendingMessage =
      sized instanceof KafkaError
        ? { ...nothing, message, call, index, lane: `refused|${message.messageId}`, refusal: sized, state: 'waiting' }
        : {
            ...sized,
            message,
            call,
            index,
            lane: `${message.destination}|${sized.partitionKey}`,
            refusal: undefined,
            state: 'waiting',
          };
    call.messages.push(pending);
    if (this.#streams.enter(pending)) this.#go(pending);
  }

  /** What cannot be sent waits for its turn, too: it has not been tried when the one before it fails. */
  #go(pending: PendingMessage): void {
    if (pending.refusal !== undefined) this.settle(pending, failed(pending.refusal));
    else this.#destination(pending.message.destination).enqueue(pending);
  }

  #destination(name: string): Destination {
    let destination = this.#destinations.get(name);
    if (destination === undefined) {
      destination = new Destination(name, this.#settings, this);
      this.#destinations.set(name, destination);
    }
    return destination;
  }
}
