import { ConfigResourceTypes } from 'kafkajs';

import { KafkaWitness, createTopics, startKafka, waitFor, withKafkaAdmin } from '../../../fixtures/index.js';
import { TcpGate } from '../../../fixtures/network/tcp-gate.js';
import type { FaultBrokerKind } from '../fault-broker.js';
import type { Fault } from '../fault.js';

const service = 'shipping';

export const kafka: FaultBrokerKind = {
  name: 'Kafka',
  start: async (destination) => {
    const server = await startKafka({ private: true, gates: 5, config: ['group.min.session.timeout.ms=1000'] });
    await createTopics(server.url, [destination], 6);
    const gates = [...server.gates];
    const repeats = true;
    const requireCopies = (copies: number): Promise<void> =>
      withKafkaAdmin(server.url, async (admin) => {
        const configEntries = [{ name: 'min.insync.replicas', value: String(copies) }];
        await admin.alterConfigs({
          validateOnly: false,
          resources: [{ type: ConfigResourceTypes.TOPIC, name: destination, configEntries }],
        });
      });
    const faults: Fault[] = [
      {
        name: 'Kafka restarted',
        slow: true,
        weight: 1,
        lasts: [0, 0],
        repeats,
        strike: async () => {
          await server.restart();
          return { on: 'in order', undo: async () => undefined };
        },
      },
      {
        name: 'Kafka killed',
        slow: true,
        weight: 2,
        lasts: [0, 3_000],
        repeats,
        strike: async () => {
          await server.kill();
          return { on: 'SIGKILL', undo: () => server.start() };
        },
      },
      {
        name: 'Kafka: not enough replicas',
        weight: 3,
        lasts: [500, 4_000],
        repeats,
        strike: async () => {
          // There is one: it refuses to write until it is asked for no more.
          await requireCopies(2);
          return { on: destination, undo: () => requireCopies(1) };
        },
      },
    ];
    return {
      brokerOptions: {
        requestTimeoutMs: 3_000,
        connectTimeoutMs: 2_000,
        sessionTimeoutMs: 3_000,
        reconnectDelayMs: 50,
        reconnectMaxDelayMs: 1_000,
      },
      faults,
      way: async () => {
        const prepared = gates.pop();
        if (prepared === undefined) throw new Error('there are no more gates to Kafka');
        const gate = new TcpGate(prepared.target, prepared.port);
        await gate.open();
        return { url: `kafka://127.0.0.1:${gate.port}`, gate };
      },
      seen: async () => {
        const ends = await withKafkaAdmin(server.url, (admin) => admin.fetchTopicOffsets(destination));
        const all = ends.reduce((sum, { offset }) => sum + Number(offset), 0);
        await using witness = await KafkaWitness.create(server.url, destination);
        await waitFor(() => witness.seen.length >= all, { message: `${all} records`, timeoutMs: 60_000 });
        return witness.seen;
      },
      leftovers: async () =>
        withKafkaAdmin(server.url, async (admin) => {
          const [{ groups }, committed, ends] = await Promise.all([
            admin.describeGroups([service]),
            admin.fetchOffsets({ groupId: service, topics: [destination] }),
            admin.fetchTopicOffsets(destination),
          ]);
          const members = groups[0]?.members.length ?? 0;
          const offsetOf = new Map(
            committed[0]?.partitions.map(({ partition, offset }) => [partition, Number(offset)]),
          );
          const unread = ends.filter(
            ({ partition, offset }) => Math.max(offsetOf.get(partition) ?? 0, 0) < Number(offset),
          );
          return [
            ...(members === 0 ? [] : [`${members} members in the group`]),
            ...unread.map(
              ({ partition, offset }) => `partition ${partition} is read to ${offsetOf.get(partition)} of ${offset}`,
            ),
          ];
        }),
      stop: () => server.stop(),
    };
  },
};
