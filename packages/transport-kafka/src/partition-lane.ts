import { Backoff, type PublishOutcome, confirmed, notAttempted, pause } from '@whizbang/core/transport';
import type { ConditionId } from './classification.js';
import { KafkaError, conditionOf } from './errors.js';
import type { KafkaClient, Leaders } from './kafka-client.js';
import type { KafkaSettings } from './options.js';
import { type PendingMessage, failed } from './pending-message.js';
import { batchOverheadBytes } from './record.js';

// A record without a time, which a broker takes whatever its clock says.
const noTimestamp = -1;
// For a leader to be there.
const patienceMs = 3000;
// Refusals that may be due to one message, while its neighbours could be stored.
const causedByOneRecord: ReadonlySet<ConditionId> = new Set([
  'messageTooLarge',
  'invalidRecord',
  'corruptMessage',
  'unencodable',
]);
const neverAborted = new AbortController().signal;

/** What a lane needs of the publisher. */
export interface PublishDesk {
  readonly client: KafkaClient | undefined;
  readonly ready: boolean;
  /** The leaders of a topic as last heard; `refresh` asks again. */
  leaders(topic: string, refresh: boolean): Promise<Leaders>;
  settle(pending: PendingMessage, outcome: PublishOutcome): void;
}

interface Failure {
  readonly error: unknown;
  /** Whether the batch may have reached the broker. */
  readonly sent: boolean;
}

/**
 * What goes to one partition: a queue, and one batch at a time in the broker's hands, awaited. With a second one on its way
 * a failure of the first would let the second overtake it.
 */
export class PartitionLane {
  readonly #topic: string;
  readonly #partition: number;
  readonly #settings: KafkaSettings;
  readonly #desk: PublishDesk;
  #queue: PendingMessage[] = [];
  #sending: Promise<void> | undefined;
  /** Bytes of a batch that the broker took or is believed to take. A topic may allow less than the broker. */
  #budget: number;

  constructor(topic: string, partition: number, settings: KafkaSettings, desk: PublishDesk) {
    this.#topic = topic;
    this.#partition = partition;
    this.#settings = settings;
    this.#desk = desk;
    this.#budget = settings.maxBatchBytes;
  }

  enqueue(pending: PendingMessage): void {
    this.#queue.push(pending);
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = undefined));
  }

  /** Resolves when nothing is queued or sent. */
  async idle(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending;
  }

  async #sendAll(): Promise<void> {
    // What is published in the same turn goes into the same batch.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const batch = this.#takeBatch();
      if (batch.length > 0) await this.#send(batch);
    }
  }

  #takeBatch(): PendingMessage[] {
    const batch: PendingMessage[] = [];
    let bytes = batchOverheadBytes;
    let taken = 0;
    for (const pending of this.#queue) {
      if (pending.state === 'waiting') {
        if (batch.length > 0 && bytes + pending.bytes > this.#budget) break;
        batch.push(pending);
        bytes += pending.bytes;
      }
      taken += 1;
    }
    this.#queue.splice(0, taken);
    return batch;
  }

  async #send(batch: readonly PendingMessage[]): Promise<void> {
    const failure = await this.#produceWithPatience(batch);
    if (failure === undefined) {
      for (const pending of batch) this.#desk.settle(pending, confirmed);
      return;
    }
    const condition = conditionOf(failure.error);
    if (batch.length > 1 && causedByOneRecord.has(condition)) {
      if (condition === 'messageTooLarge') this.#budget = halfOf(batch, this.#budget);
      await this.#sendInHalves(batch);
      return;
    }
    // The first of a stream tells what happened; settling it releases the others of the stream.
    const away = !failure.sent && !this.#desk.ready;
    for (const pending of batch) {
      this.#desk.settle(pending, away ? notAttempted : failed(failure.error, failure.sent ? 'inFlight' : 'idle'));
    }
  }

  /** The broker stores none of a batch, and does not tell which message it refused it for. */
  async #sendInHalves(batch: readonly PendingMessage[]): Promise<void> {
    this.#takeBack(batch);
    const middle = Math.ceil(batch.length / 2);
    for (const half of [batch.slice(0, middle), batch.slice(middle)]) {
      const open = half.filter(({ state }) => state === 'waiting');
      if (open.length > 0) await this.#send(open);
    }
  }

  /**
   * A partition that has just been created, or whose leader is changing, is ready in a moment; nothing has been stored so far. Nor
   * has it when our clock is wrong, and the broker refuses the time of the records: they go without one.
   */
  async #produceWithPatience(batch: readonly PendingMessage[]): Promise<Failure | undefined> {
    const deadline = performance.now() + patienceMs;
    const backoff = new Backoff(20, 500);
    for (let timed = true; ;) {
      const failure = await this.#produce(batch, timed);
      const condition = failure === undefined ? undefined : conditionOf(failure.error);
      if (condition === 'clockRefused' && timed) {
        timed = false;
        this.#takeBack(batch);
        continue;
      }
      if (condition !== 'noLeader' && condition !== 'unknownTopic') return failure;
      if (performance.now() > deadline || !this.#desk.ready) return failure;
      this.#takeBack(batch);
      await pause(backoff.next(), neverAborted);
      if (batch.every(({ state }) => state === 'settled')) return failure;
    }
  }

  /** The broker has stored nothing of it: from here on it may be released again. */
  #takeBack(batch: readonly PendingMessage[]): void {
    for (const pending of batch) {
      if (pending.state === 'sent') pending.state = 'waiting';
      if (pending.call.signal.aborted) this.#desk.settle(pending, notAttempted);
    }
  }

  /** Undefined when the broker has stored the batch. */
  async #produce(batch: readonly PendingMessage[], timed: boolean): Promise<Failure | undefined> {
    const { client } = this.#desk;
    let sent = false;
    try {
      if (client === undefined) throw new KafkaError('not connected', 'unreachable');
      const leader = (await this.#desk.leaders(this.#topic, false))[this.#partition] ?? -1;
      const broker = await client.broker(leader);
      const open = batch.filter(({ state }) => state === 'waiting');
      if (open.length === 0) return undefined;
      for (const pending of open) pending.state = 'sent';
      sent = true;
      const messages = open.map(({ record }) => (timed ? record : { ...record, timestamp: noTimestamp }));
      const topicData = [{ topic: this.#topic, partitions: [{ partition: this.#partition, messages }] }];
      // The broker's own answer that it took too long tells more than none.
      const timeout = Math.ceil(this.#settings.requestTimeoutMs * 0.9);
      const answer = await client.ask(broker, (asked) => asked.produce({ acks: -1, timeout, topicData }));
      const covered = answer.topics.some(
        ({ topicName, partitions }) =>
          topicName === this.#topic && partitions.some(({ partition }) => partition === this.#partition),
      );
      if (!covered) throw new KafkaError('the answer does not speak of the partition', 'partitionNotCovered');
      return undefined;
    } catch (error) {
      const condition = conditionOf(error, sent ? 'inFlight' : 'idle');
      // Whoever sends next shall know the new leader.
      if (condition !== 'messageTooLarge') await this.#desk.leaders(this.#topic, true).catch(() => undefined);
      return { error, sent: sent && condition !== 'unreachable' };
    }
  }
}

function halfOf(batch: readonly PendingMessage[], budget: number): number {
  const bytes = batch.reduce((sum, pending) => sum + pending.bytes, batchOverheadBytes);
  return Math.min(budget, Math.max(1024, Math.ceil(bytes / 2)));
}
