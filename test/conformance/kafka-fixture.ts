import { createTransport } from '@whizbang/transport-kafka';
import { KafkaWitness } from '../fixtures/kafka/kafka-witness.js';
import { createTopics, withKafkaAdmin } from '../fixtures/kafka/kafka-topics.js';
import { KAFKA_ACCOUNT } from '../fixtures/kafka/kafka-server.js';
import { testKafka, testKafkaGate } from '../fixtures/test-services.js';
import type { RawConsumer, TransportFixture } from './fixture.js';
import { TcpGate } from '../fixtures/network/tcp-gate.js';

const secret = 'do-not-tell';
export const maxMessageBytes = 1_010_000;

export interface KafkaMode {
  readonly partitions: number;
  readonly declare?: boolean;
}

/** The Kafka transport on the broker of the tests, with a cuttable connection; the fixture itself has a direct one. */
export function kafkaFixture(mode: string, { partitions, declare = true }: KafkaMode): TransportFixture {
  let url = '';
  let saslUrl: string | undefined;
  let gate: TcpGate | undefined;
  return {
    mode,
    deadlineMs: 20_000,
    capabilities: {
      durable: true,
      orderedStreams: true,
      atomicGroups: true,
      reportsUnroutable: false,
      fanOut: true,
      competingConsumers: false,
      createsTopology: declare,
      maxMessageBytes,
    },
    secret,
    malformed: [
      `http://user:${secret}@localhost:9092`,
      `kafka://user:${secret}@localhost:99999`,
      `kafka://user:${secret}@localhost:9092?startFrom=middle`,
      `kafka://user:${secret}@localhost:9092?unknown=1`,
      `kafka://user:${secret}%@localhost:9092`,
      `kafka:user:${secret}@localhost`,
    ].map((text) => ({ why: text, create: () => createTransport(text) })),
    open: async () => {
      ({ url, saslUrl } = await testKafka());
      const { port, target } = await testKafkaGate();
      gate = new TcpGate(target, port);
      await gate.open();
    },
    // Outages are short here, so waiting long to reconnect would only be waiting.
    createTransport: async () =>
      createTransport(`kafka://127.0.0.1:${gate?.port}?partitions=${partitions}`, {
        declare,
        maxMessageBytes,
        requestTimeoutMs: 5000,
        reconnectDelayMs: 50,
        reconnectMaxDelayMs: 500,
      }),
    outage: async (during) => gate?.outage(during),
    stall: async (during) => gate?.stalled(during),
    takeBack: async () => gate?.cut(),
    createRefused: async () => {
      if (saslUrl === undefined) throw new Error('the broker of KAFKA_URL has no listener that wants a login');
      return createTransport(saslUrl.replace('://', `://${KAFKA_ACCOUNT.username}:${secret}@`));
    },
    inspect: async (destination) => {
      await createTopics(url, [destination], partitions);
      return rawConsumer(await KafkaWitness.create(url, destination));
    },
    provide: async ({ bindings }) => {
      await createTopics(url, [...new Set(bindings.map((binding) => binding.destination))], partitions);
    },
    cleanUp: async ({ destinations }) => {
      await withKafkaAdmin(url, async (admin) => {
        // Names that were made up and never used are no topics.
        const existing = new Set(await admin.listTopics());
        const topics = destinations.filter((destination) => existing.has(destination));
        if (topics.length > 0) await admin.deleteTopics({ topics });
      });
    },
    close: async () => gate?.close(),
  };
}

function rawConsumer(witness: KafkaWitness): RawConsumer {
  return {
    messages: () => witness.seen.map(({ messageId, body }) => ({ messageId, body: Buffer.from(body) })),
    onMessage: (listener) => witness.onMessage(listener),
    close: () => witness[Symbol.asyncDispose](),
  };
}
