import {
  Backoff,
  type Delivery,
  type DeliveryHandler,
  type FailureLog,
  type SubscriptionRequest,
  pause,
} from '@whizbang/core/transport';
import type { Assignment } from './assignment.js';
import { conditionOf, rootCause } from './errors.js';
import { recordsOf } from './fetched-records.js';
import type { HandedOver } from './handed-over.js';
import { decodeDelivery, messageTypeOf } from './headers.js';
import type { FetchRequest, FetchResponse, PartitionOffset, TopicPartitions } from './kafka-broker.js';
import type { KafkaClient, Leaders } from './kafka-client.js';
import { endsOf } from './start-positions.js';
import { orAborted } from './or-aborted.js';

// The broker answers as soon as there is something. Otherwise it is asked again after this long, which also is the longest
// that a fetch which nobody waits for any more holds up the next one.
const fetchWaitMs = 1000;
const partitionBytes = 1_048_576;
const answerBytes = 10_485_760;
const readCommitted = 1;
// The pause after a rejection of the handler: the deliveries stay here, so trying again costs the broker nothing.
const firstRetryMs = 200;
const longestRetryMs = 5000;

export interface Reception {
  readonly client: KafkaClient;
  readonly request: SubscriptionRequest;
  readonly handler: DeliveryHandler;
  readonly leaders: ReadonlyMap<string, Leaders>;
  readonly commit: (offsets: readonly TopicPartitions<PartitionOffset>[]) => Promise<void>;
  readonly handedOver: HandedOver;
  readonly handlerLog: FailureLog;
  /** Aborts when nothing more is to be handed over. */
  readonly over: AbortSignal;
}

/** A record that has been fetched: what to hand over, if anybody wants it, and where its partition goes on behind it. */
interface Fetched {
  readonly delivery: Delivery | undefined;
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly next: bigint;
}

/** Receives from the partitions of one membership, each leader at its own pace, with one call of the handler at a time. */
export class Receiving {
  readonly #reception: Reception;
  /** By topic and partition: what to fetch next. */
  readonly #positions: ReadonlyMap<string, Map<number, bigint>>;
  readonly #wanted: ReadonlyMap<string, ReadonlySet<string>>;
  #handing: Promise<void> = Promise.resolve();

  constructor(reception: Reception, positions: ReadonlyMap<string, Map<number, bigint>>) {
    this.#reception = reception;
    this.#positions = positions;
    const wanted = new Map<string, Set<string>>();
    for (const { destination, messageTypes } of reception.request.bindings) {
      wanted.set(destination, new Set([...(wanted.get(destination) ?? []), ...messageTypes]));
    }
    this.#wanted = wanted;
  }

  /** Resolves when it is over and the last call of the handler has settled. */
  async untilOver(): Promise<void> {
    const { over } = this.#reception;
    const failing = new AbortController();
    const signal = AbortSignal.any([over, failing.signal]);
    const loops = [...this.#byLeader()].map(([leader, assignment]) => this.#fetchFrom(leader, assignment, signal));
    if (loops.length === 0) await orAborted(new Promise(() => undefined), signal);
    const settled = await Promise.allSettled(
      loops.map((loop) =>
        loop.catch((error: unknown) => {
          failing.abort();
          throw error;
        }),
      ),
    );
    for (const outcome of settled) if (outcome.status === 'rejected') throw outcome.reason;
  }

  #byLeader(): Map<number, Assignment> {
    const byLeader = new Map<number, Record<string, number[]>>();
    for (const [topic, partitions] of this.#positions) {
      for (const partition of partitions.keys()) {
        const leader = this.#reception.leaders.get(topic)?.[partition] ?? -1;
        const assignment = byLeader.get(leader) ?? {};
        (assignment[topic] ??= []).push(partition);
        byLeader.set(leader, assignment);
      }
    }
    return byLeader;
  }

  async #fetchFrom(leader: number, assignment: Assignment, signal: AbortSignal): Promise<void> {
    const { client } = this.#reception;
    while (!signal.aborted) {
      let answer: FetchResponse | undefined;
      try {
        const broker = await client.broker(leader);
        const fetching = client.ask(broker, (asked) => asked.fetch(this.#fetchRequest(assignment)));
        // What comes in after the end is nobody's business any more.
        answer = await orAborted(fetching, signal);
      } catch (error) {
        if (conditionOf(error) !== 'offsetOutOfRange') throw error;
        await this.#startAgain(error, leader);
      }
      if (answer === undefined || signal.aborted) continue;
      const fetched = this.#read(answer);
      if (fetched.length === 0) continue;
      // One leader's deliveries after the other's.
      const handing = this.#handing.then(() => this.#handOver(fetched, signal));
      this.#handing = handing.catch(() => undefined);
      await handing;
    }
  }

  #fetchRequest(assignment: Assignment): FetchRequest {
    const topics = Object.entries(assignment).map(([topic, partitions]) => ({
      topic,
      partitions: partitions.map((partition) => ({
        partition,
        fetchOffset: String(this.#positions.get(topic)?.get(partition) ?? 0n),
        maxBytes: partitionBytes,
      })),
    }));
    return { isolationLevel: readCommitted, maxWaitTime: fetchWaitMs, minBytes: 1, maxBytes: answerBytes, topics };
  }

  /** What was to come next has been deleted: goes on with the oldest that is left. */
  async #startAgain(error: unknown, leader: number): Promise<void> {
    const { topic, partition } = rootCause(error) as { topic?: string; partition?: number };
    if (topic === undefined || partition === undefined) throw error;
    const { client, leaders } = this.#reception;
    const first = await endsOf(client, topic, [partition], leaders.get(topic) ?? [leader], 'earliest');
    this.#positions.get(topic)?.set(partition, BigInt(first[partition] ?? 0));
  }

  #read(answer: FetchResponse): Fetched[] {
    const { handedOver, request } = this.#reception;
    const fetched: Fetched[] = [];
    for (const { topicName: topic, partitions } of answer.responses) {
      for (const answered of partitions) {
        const { partition } = answered;
        const positions = this.#positions.get(topic);
        const position = positions?.get(partition);
        if (positions === undefined || position === undefined) continue;
        const { records, next } = recordsOf(answered, position);
        for (const record of records) {
          const type = messageTypeOf(record);
          const offset = BigInt(record.offset);
          const wanted = type === undefined || this.#wanted.get(topic)?.has(type);
          const redelivered = handedOver.has(request.service, topic, partition, offset);
          const delivery = wanted ? decodeDelivery(topic, record, redelivered) : undefined;
          fetched.push({ delivery, topic, partition, offset, next: offset + 1n });
        }
        if (next > position) fetched.push({ delivery: undefined, topic, partition, offset: next - 1n, next });
      }
    }
    return fetched;
  }

  /** Hands over in portions; each is committed before the next. What is not committed is fetched again by whoever comes next. */
  async #handOver(fetched: readonly Fetched[], signal: AbortSignal): Promise<void> {
    const { request, commit } = this.#reception;
    const most = Math.min(request.maxBatch, request.prefetch);
    let from = 0;
    while (from < fetched.length && !signal.aborted) {
      let [to, count] = [from, 0];
      for (; to < fetched.length; to += 1) {
        if (fetched[to]?.delivery === undefined) continue;
        if (count === most) break;
        count += 1;
      }
      const portion = fetched.slice(from, to);
      if (count > 0 && !(await this.#handled(portion, signal))) return;
      for (const { topic, partition, next } of portion) this.#positions.get(topic)?.set(partition, next);
      await commit(offsetsBehind(portion));
      from = to;
    }
  }

  /** Calls the handler until it resolves. False when it is over before that. */
  async #handled(portion: readonly Fetched[], signal: AbortSignal): Promise<boolean> {
    const { handler, handlerLog, handedOver, request } = this.#reception;
    const backoff = new Backoff(firstRetryMs, longestRetryMs);
    let deliveries = portion.flatMap(({ delivery }) => delivery ?? []);
    while (!signal.aborted) {
      for (const { delivery, topic, partition, offset } of portion) {
        if (delivery !== undefined) handedOver.add(request.service, topic, partition, offset);
      }
      try {
        await handler(deliveries);
        handlerLog.succeeded();
        return true;
      } catch (error) {
        handlerLog.failed(error instanceof Error ? error.message : String(error), { deliveries: deliveries.length });
        deliveries = deliveries.map((delivery) => ({ ...delivery, redelivered: true }));
        await pause(backoff.next(), signal);
      }
    }
    return false;
  }
}

function offsetsBehind(portion: readonly Fetched[]): TopicPartitions<PartitionOffset>[] {
  const topics = new Map<string, Map<number, bigint>>();
  for (const { topic, partition, next } of portion) {
    const partitions = topics.get(topic) ?? new Map<number, bigint>();
    topics.set(topic, partitions.set(partition, next));
  }
  return [...topics].map(([topic, partitions]) => ({
    topic,
    partitions: [...partitions].map(([partition, next]) => ({ partition, offset: String(next) })),
  }));
}
