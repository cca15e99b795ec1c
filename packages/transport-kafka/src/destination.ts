import { type PublishCall, notAttempted } from '@whizbang/core/transport';
import type { Leaders } from './kafka-client.js';
import type { KafkaSettings } from './options.js';
import { PartitionLane, type PublishDesk } from './partition-lane.js';
import { partitionOf } from './partitioner.js';
import { type PendingMessage, failed } from './pending-message.js';

/** What is to be published to one topic, on its way to the partitions. */
export class Destination {
  readonly #topic: string;
  readonly #settings: KafkaSettings;
  readonly #desk: PublishDesk;
  readonly #lanes = new Map<number, PartitionLane>();
  #incoming: PendingMessage[] = [];
  #spreading = false;
  #partitions = 0;
  /** Messages without a key go to one partition a call, so that they make few large batches. */
  #keyless: { call: PublishCall<PendingMessage> | undefined; turn: number };

  constructor(topic: string, settings: KafkaSettings, desk: PublishDesk) {
    this.#topic = topic;
    this.#settings = settings;
    this.#desk = desk;
    this.#keyless = { call: undefined, turn: Math.floor(Math.random() * 1000) };
  }

  enqueue(pending: PendingMessage): void {
    this.#incoming.push(pending);
    if (!this.#spreading) void this.#spread();
  }

  /** Never rejects: what goes wrong is an outcome. */
  async #spread(): Promise<void> {
    this.#spreading = true;
    while (this.#incoming.length > 0) {
      try {
        const leaders = await this.#desk.leaders(this.#topic, false);
        if (leaders.length !== this.#partitions) await this.#takeOver(leaders);
        for (const pending of this.#incoming.splice(0)) {
          if (pending.state === 'waiting') this.#lane(this.#partitionOf(pending)).enqueue(pending);
        }
      } catch (error) {
        const outcome = this.#desk.ready ? failed(error) : notAttempted;
        for (const pending of this.#incoming.splice(0)) this.#desk.settle(pending, outcome);
      }
    }
    this.#spreading = false;
  }

  /** With another number of partitions a key may belong elsewhere; what is on its way to the old place goes first. */
  async #takeOver(leaders: Leaders): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.idle()));
    this.#partitions = leaders.length;
  }

  #partitionOf({ record: { key }, call }: PendingMessage): number {
    if (key !== null) return partitionOf(key, this.#partitions);
    if (call !== this.#keyless.call) this.#keyless = { call, turn: this.#keyless.turn + 1 };
    return this.#keyless.turn % this.#partitions;
  }

  #lane(partition: number): PartitionLane {
    let lane = this.#lanes.get(partition);
    if (lane === undefined) {
      lane = new PartitionLane(this.#topic, partition, this.#settings, this.#desk);
      this.#lanes.set(partition, lane);
    }
    return lane;
  }
}
