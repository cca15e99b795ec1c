import type { Assignment } from './assignment.js';
import type { PartitionOffset, TopicPartitions } from './kafka-broker.js';
import type { KafkaClient, Leaders } from './kafka-client.js';

/** Offsets by topic and partition. */
export type Starts = Readonly<Record<string, Readonly<Record<number, string>>>>;

const timestamps = { latest: -1, earliest: -2 } as const;
const readCommitted = 1;

/**
 * Where a group begins on partitions it has no offset for. Kafka's own "latest" loses what comes between the first
 * subscription and the first commit, and all that comes to an added partition before it is noticed. So a topic that
 * is new to the group starts where `startFrom` says, and is pinned there at once; a partition that is new to a known
 * topic starts at its beginning.
 */
export async function startPositions(
  client: KafkaClient,
  committed: (assignment: Assignment) => Promise<readonly TopicPartitions<PartitionOffset>[]>,
  leaders: ReadonlyMap<string, Leaders>,
  startFrom: 'latest' | 'earliest',
): Promise<Starts> {
  const everything = Object.fromEntries([...leaders].map(([topic, { length }]) => [topic, [...Array(length).keys()]]));
  const starts: Record<string, Record<number, string>> = {};
  for (const { topic, partitions } of await committed(everything)) {
    const missing = partitions.filter(({ offset }) => Number(offset) < 0).map(({ partition }) => partition);
    const from = missing.length === partitions.length ? startFrom : 'earliest';
    if (missing.length > 0) starts[topic] = await endsOf(client, topic, missing, leaders.get(topic) ?? [], from);
  }
  return starts;
}

/** The first or the next offset of partitions. */
export async function endsOf(
  client: KafkaClient,
  topic: string,
  partitions: readonly number[],
  leaders: Leaders,
  which: 'latest' | 'earliest',
): Promise<Record<number, string>> {
  const ends: Record<number, string> = {};
  const timestamp = timestamps[which];
  for (const leader of new Set(partitions.map((partition) => leaders[partition] ?? -1))) {
    const broker = await client.broker(leader);
    const led = partitions.filter((partition) => leaders[partition] === leader);
    const topics = [{ topic, partitions: led.map((partition) => ({ partition, timestamp })) }];
    const { responses } = await client.ask(broker, (asked) =>
      asked.listOffsets({ isolationLevel: readCommitted, topics }),
    );
    for (const { partition, offset } of responses.flatMap((response) => response.partitions)) ends[partition] = offset;
  }
  return ends;
}
