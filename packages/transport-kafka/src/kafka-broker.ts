/**
 * What this package uses of kafkajs: one broker and its requests. Its own types know of a part of them only, and type most
 * answers as `any`.
 */
export interface KafkaBroker {
  readonly nodeId?: string | number;
  readonly connectionPool: ConnectionPool;
  apiVersions(): Promise<unknown>;
  produce(request: ProduceRequest): Promise<ProduceResponse>;
  fetch(request: FetchRequest): Promise<FetchResponse>;
  listOffsets(request: {
    readonly isolationLevel: number;
    readonly topics: readonly TopicPartitions<{ partition: number; timestamp: number }>[];
  }): Promise<{ readonly responses: readonly TopicPartitions<PartitionOffset>[] }>;
  createTopics(request: {
    readonly topics: readonly { topic: string; numPartitions: number; replicationFactor: number }[];
    readonly timeout: number;
  }): Promise<unknown>;
  findGroupCoordinator(request: {
    readonly groupId: string;
    readonly coordinatorType: number;
  }): Promise<{ readonly coordinator: { readonly nodeId: number } }>;
  joinGroup(request: {
    readonly groupId: string;
    readonly memberId: string;
    readonly sessionTimeout: number;
    readonly rebalanceTimeout: number;
    readonly groupProtocols: readonly { readonly name: string; readonly metadata: Buffer }[];
  }): Promise<JoinedGroup>;
  syncGroup(request: {
    readonly groupId: string;
    readonly generationId: number;
    readonly memberId: string;
    readonly groupAssignment: readonly { readonly memberId: string; readonly memberAssignment: Buffer }[];
  }): Promise<{ readonly memberAssignment: Buffer }>;
  heartbeat(request: {
    readonly groupId: string;
    readonly groupGenerationId: number;
    readonly memberId: string;
  }): Promise<unknown>;
  leaveGroup(request: { readonly groupId: string; readonly memberId: string }): Promise<unknown>;
  offsetFetch(request: {
    readonly groupId: string;
    readonly topics: readonly TopicPartitions<{ partition: number }>[];
  }): Promise<{ readonly responses: readonly TopicPartitions<PartitionOffset>[] }>;
  offsetCommit(request: {
    readonly groupId: string;
    readonly groupGenerationId: number;
    readonly memberId: string;
    readonly topics: readonly TopicPartitions<PartitionOffset>[];
  }): Promise<unknown>;
}

export interface TopicPartitions<Partition> {
  readonly topic: string;
  readonly partitions: readonly Partition[];
}

/** Offsets have 64 bits, so they are text to kafkajs; -1 is none. */
export interface PartitionOffset {
  readonly partition: number;
  readonly offset: string;
}

/** A record as it is produced. */
export interface OutgoingRecord {
  readonly key: Buffer | null;
  readonly value: Buffer;
  readonly headers: Record<string, string>;
  /** Milliseconds of the wall clock. Default: now. */
  readonly timestamp?: number;
}

interface ProduceRequest {
  readonly acks: number;
  readonly timeout: number;
  readonly topicData: readonly TopicPartitions<{
    readonly partition: number;
    readonly messages: readonly OutgoingRecord[];
  }>[];
}

interface ProduceResponse {
  readonly topics: readonly {
    readonly topicName: string;
    readonly partitions: readonly { readonly partition: number; readonly errorCode: number }[];
  }[];
}

export interface FetchRequest {
  readonly isolationLevel: number;
  readonly maxWaitTime: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly topics: readonly TopicPartitions<{ partition: number; fetchOffset: string; maxBytes: number }>[];
}

export interface FetchResponse {
  readonly responses: readonly { readonly topicName: string; readonly partitions: readonly FetchedPartition[] }[];
}

export interface FetchedPartition {
  readonly partition: number;
  readonly highWatermark: string;
  readonly abortedTransactions?: readonly { readonly producerId: string; readonly firstOffset: string }[] | null;
  readonly messages: readonly FetchedRecord[];
}

/** A record as it is received. A header that occurs twice is a list; names such as `constructor` come as one in any case. */
export interface FetchedRecord {
  readonly offset: string;
  readonly timestamp: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly isControlRecord: boolean;
  readonly batchContext?: {
    readonly firstOffset: string;
    readonly lastOffsetDelta: number;
    readonly producerId: string;
    readonly inTransaction: boolean;
  };
}

export interface JoinedGroup {
  readonly generationId: number;
  readonly leaderId: string;
  readonly memberId: string;
  readonly members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[];
}

interface BrokerMetadata {
  readonly controllerId: number;
  readonly topicMetadata: readonly {
    readonly topic: string;
    readonly partitionMetadata: readonly { readonly partitionId: number; readonly leader: number }[];
  }[];
}

/** The connections to one broker. Everything goes through `send`, with the codec of its answer. */
interface ConnectionPool {
  readonly host: string;
  readonly port: number;
  send(request: WireRequest): Promise<unknown>;
}

export interface WireRequest {
  readonly request: { readonly apiName: string; readonly apiVersion: number };
  readonly response: { decode(payload: Buffer): Promise<unknown>; parse(decoded: unknown): Promise<unknown> };
}

/** The brokers that kafkajs knows of one cluster, and what it last heard of topics. */
export interface BrokerPool {
  readonly metadata: BrokerMetadata | null;
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  refreshMetadata(topics: readonly string[]): Promise<void>;
  findBroker(node: { readonly nodeId: number }): Promise<KafkaBroker>;
  findConnectedBroker(): Promise<KafkaBroker>;
}
