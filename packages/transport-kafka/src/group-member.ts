import { pause } from '@whizbang/core/transport';
import kafkajs from 'kafkajs';
import { type Assignment, type Member, assign } from './assignment.js';
import { conditionOf, protocolCode } from './errors.js';
import type { JoinedGroup, KafkaBroker, PartitionOffset, TopicPartitions } from './kafka-broker.js';
import type { KafkaClient } from './kafka-client.js';
import type { KafkaSettings } from './options.js';
import type { Starts } from './start-positions.js';

const { MemberAssignment, MemberMetadata } = kafkajs.AssignerProtocol;

// Only members with the same protocol can be in one group.
const protocolName = 'whizbang-sticky';
// A member learns of a rebalance by its next heartbeat, so this is also how long one that joins waits.
const heartbeatMs = 1000;
// A handler call in hand may delay a rebalance by as much; then the group goes on without this member.
const rebalanceTimeoutMs = 60_000;
const unknownMember = 25;
const rebalanceInProgress = 27;

/** What a member is to receive until the group gathers again. */
export interface Membership {
  readonly assignment: Assignment;
  /** Aborts when the group gathers again, or has gone on without this member. */
  readonly ending: AbortSignal;
  /** Where to begin on partitions that the group has no offset for. */
  readonly starts: Starts;
}

/** What the member that is chosen to lead the group finds out for all. */
export interface GroupPlan {
  readonly partitions: ReadonlyMap<string, number>;
  readonly starts: Starts;
}

/** One member of a consumer group: joins, keeps its place by heartbeats, commits, leaves. It outlives its connections. */
export class GroupMember {
  readonly #groupId: string;
  readonly #settings: KafkaSettings;
  #client: KafkaClient;
  #coordinator: KafkaBroker | undefined;
  #memberId = '';
  #generationId = -1;
  #owned: Assignment = {};
  #joining = false;
  #heartbeats = new AbortController();

  constructor(client: KafkaClient, groupId: string, settings: KafkaSettings) {
    this.#client = client;
    this.#groupId = groupId;
    this.#settings = settings;
  }

  /** From now on it speaks through another client. To the broker it stays the same member. */
  use(client: KafkaClient): void {
    if (client === this.#client) return;
    // Joining was cut off: under another name, the group would wait for the first until its session has timed out.
    if (this.#memberId === '') this.#memberId = this.#client.memberIdGiven ?? '';
    this.#client = client;
    this.#coordinator = undefined;
  }

  /**
   * Waits for all members of the group, and resolves with what this one is to receive.
   * @param topics What this member receives from.
   * @param plan Called when this member is chosen to lead, with the topics of all.
   */
  async join(
    topics: readonly string[],
    plan: (topics: readonly string[]) => Promise<GroupPlan>,
    signal: AbortSignal,
  ): Promise<Membership> {
    this.#heartbeats.abort();
    this.#joining = true;
    try {
      for (;;) {
        try {
          return await this.#joinOnce(topics, plan);
        } catch (error) {
          if (!['membershipLost', 'noCoordinator'].includes(conditionOf(error))) throw error;
          if (signal.aborted || this.#client.endedBy !== undefined) throw error;
          await pause(100, signal);
        }
      }
    } finally {
      this.#joining = false;
    }
  }

  async #joinOnce(
    topics: readonly string[],
    plan: (topics: readonly string[]) => Promise<GroupPlan>,
  ): Promise<Membership> {
    const { sessionTimeoutMs: sessionTimeout, requestTimeoutMs } = this.#settings;
    const userData = Buffer.from(JSON.stringify(this.#owned));
    const metadata = MemberMetadata.encode({ version: 0, topics: [...topics], userData });
    const joined = await this.#ask(
      (broker, member) =>
        broker.joinGroup({
          ...member,
          sessionTimeout,
          rebalanceTimeout: rebalanceTimeoutMs,
          groupProtocols: [{ name: protocolName, metadata }],
        }),
      rebalanceTimeoutMs + requestTimeoutMs,
    );
    this.#memberId = joined.memberId;
    this.#generationId = joined.generationId;
    const groupAssignment = joined.leaderId === joined.memberId ? await assignmentsFor(joined, plan) : [];
    const synced = await this.#ask(
      (broker, member) => broker.syncGroup({ ...member, generationId: this.#generationId, groupAssignment }),
      rebalanceTimeoutMs + requestTimeoutMs,
    );
    const decoded = MemberAssignment.decode(synced.memberAssignment);
    this.#owned = decoded?.assignment ?? {};
    return { assignment: this.#owned, starts: parsed<Starts>(decoded?.userData) ?? {}, ending: this.#keepAlive() };
  }

  /** The offsets that the group has committed; -1 where it has none. */
  async committed(assignment: Assignment): Promise<readonly TopicPartitions<PartitionOffset>[]> {
    const topics = Object.entries(assignment).map(([topic, partitions]) => ({
      topic,
      partitions: partitions.map((partition) => ({ partition })),
    }));
    if (topics.length === 0) return [];
    return (await this.#ask((broker, { groupId }) => broker.offsetFetch({ groupId, topics }))).responses;
  }

  /** @throws an error with the condition `membershipLost` when the partitions belong to somebody else by now. */
  async commit(topics: readonly TopicPartitions<PartitionOffset>[]): Promise<void> {
    if (topics.length === 0) return;
    const groupGenerationId = this.#generationId;
    await this.#ask((broker, member) => broker.offsetCommit({ ...member, groupGenerationId, topics }));
  }

  /** Its partitions go to the others at once, not after the session timeout. */
  async leave(connectAnew: () => Promise<KafkaClient>): Promise<void> {
    this.#heartbeats.abort();
    const { memberIdGiven } = this.#client;
    if (this.#memberId === '' && memberIdGiven !== undefined) this.#memberId = memberIdGiven;
    if (this.#memberId === '') return;
    // A broker answers the requests of a connection in turn, and a join only when all members have come.
    const client = this.#joining ? await connectAnew() : this.#client;
    try {
      const coordinator = await client.coordinator(this.#groupId);
      await client.ask(coordinator, (broker) =>
        broker.leaveGroup({ groupId: this.#groupId, memberId: this.#memberId }),
      );
      this.#memberId = '';
    } finally {
      if (client !== this.#client) await client.close();
    }
  }

  /** Heartbeats go on whatever the handler does, so that a slow one is not taken for dead. */
  #keepAlive(): AbortSignal {
    const ending = new AbortController();
    this.#heartbeats = new AbortController();
    void this.#beat(ending, this.#heartbeats.signal).finally(() => ending.abort());
    return ending.signal;
  }

  async #beat(ending: AbortController, signal: AbortSignal): Promise<void> {
    const groupGenerationId = this.#generationId;
    let aliveAt = performance.now();
    for (;;) {
      await pause(heartbeatMs, signal);
      if (signal.aborted || this.#client.endedBy !== undefined) return;
      try {
        const { sessionTimeoutMs } = this.#settings;
        await this.#ask((broker, member) => broker.heartbeat({ ...member, groupGenerationId }), sessionTimeoutMs);
        aliveAt = performance.now();
      } catch (error) {
        if (protocolCode(error) === rebalanceInProgress) {
          // It is answered by joining again, but not before the handler has settled; until then the place is kept.
          ending.abort();
          aliveAt = performance.now();
        } else if (conditionOf(error) === 'membershipLost') return;
        else if (performance.now() - aliveAt > this.#settings.sessionTimeoutMs) return;
      }
    }
  }

  async #ask<T>(
    request: (broker: KafkaBroker, member: { groupId: string; memberId: string }) => Promise<T>,
    ms?: number,
  ): Promise<T> {
    const member = { groupId: this.#groupId, memberId: this.#memberId };
    try {
      this.#coordinator ??= await this.#client.coordinator(this.#groupId);
      return await this.#client.ask(this.#coordinator, (broker) => request(broker, member), ms);
    } catch (error) {
      if (protocolCode(error) === unknownMember && this.#memberId === member.memberId) this.#memberId = '';
      if (conditionOf(error) !== 'membershipLost') this.#coordinator = undefined;
      throw error;
    }
  }
}

async function assignmentsFor(
  { members }: JoinedGroup,
  plan: (topics: readonly string[]) => Promise<GroupPlan>,
): Promise<{ memberId: string; memberAssignment: Buffer }[]> {
  const known = members.map(({ memberId, memberMetadata }): Member => {
    const { topics, userData } = MemberMetadata.decode(memberMetadata) ?? { topics: [], userData: undefined };
    return { memberId, topics, owned: parsed<Assignment>(userData) ?? {} };
  });
  const { partitions, starts } = await plan([...new Set(known.flatMap(({ topics }) => topics))]);
  const userData = Buffer.from(JSON.stringify(starts));
  return [...assign(known, partitions)].map(([memberId, assignment]) => ({
    memberId,
    memberAssignment: MemberAssignment.encode({ version: 0, assignment: mutable(assignment), userData }),
  }));
}

function mutable(assignment: Assignment): Record<string, number[]> {
  return Object.fromEntries(Object.entries(assignment).map(([topic, partitions]) => [topic, [...partitions]]));
}

function parsed<T>(userData: Buffer | null | undefined): T | undefined {
  try {
    return JSON.parse(userData?.toString() ?? '') as T;
  } catch {
    return undefined;
  }
}
