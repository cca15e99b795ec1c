import { afterAll } from 'vitest';

import { type KafkaServer, startKafka, waitFor } from '../../fixtures/index.js';
import { createTopics, withKafkaAdmin } from '../../fixtures/kafka/kafka-topics.js';
import { KafkaWitness, type SeenRecord } from '../../fixtures/kafka/kafka-witness.js';
import { plainKafka } from '../../fixtures/kafka/plain-kafka.js';
import { atEnd } from '../test-service.js';
import { partHeaders } from './binary-mode.js';
import {
  type BrokerKind,
  type BrokerWitness,
  type ForeignEvent,
  type SeenMessage,
  outagePace,
} from './scenario-broker.js';

let broker: Promise<KafkaServer> | undefined;

// One for each test file: a Kafka has no virtual hosts, and the scenarios' topics and groups have the names that they have.
afterAll(async () => {
  await (await broker)?.stop();
});

export const kafka: BrokerKind = {
  name: 'Kafka',
  shared: async () => {
    broker ??= startKafka({ private: true });
    const { url } = await broker;
    await empty(url);
    return {
      url,
      witness: (destination) => witness(url, destination),
      send: (destination, event) => send(url, destination, event),
    };
  },
  fragile: async () => {
    const server = await startKafka({ private: true });
    atEnd(() => server.stop());
    return {
      url: server.url,
      brokerOptions: {
        connectTimeoutMs: Math.round(10_000 / outagePace),
        requestTimeoutMs: 30_000 / outagePace,
        reconnectDelayMs: Math.round(200 / outagePace),
        reconnectMaxDelayMs: 30_000 / outagePace,
      },
      witness: async (destination) => {
        await createTopics(server.url, [destination], 6);
        return { seen: (messages) => everythingIn(server.url, destination, messages) };
      },
      stop: () => server.kill(),
      start: () => server.start(),
    };
  },
};

/** A topic keeps what it took, so it is read when all is over. */
async function everythingIn(url: string, topic: string, messages: number): Promise<readonly SeenMessage[]> {
  await using reader = await witness(url, topic);
  const known = (): number => new Set(reader.seen.map(({ messageId }) => messageId)).size;
  await waitFor(() => known() >= messages, { message: `${messages} messages in the topic`, timeoutMs: 30_000 });
  return reader.seen;
}

/** Takes away what the test before has left. */
async function empty(url: string): Promise<void> {
  await withKafkaAdmin(url, async (admin) => {
    const [{ groups }, topics] = await Promise.all([admin.listGroups(), admin.listTopics()]);
    if (groups.length > 0) await admin.deleteGroups(groups.map(({ groupId }) => groupId)).catch(() => undefined);
    const ours = topics.filter((topic) => !topic.startsWith('__'));
    if (ours.length > 0) await admin.deleteTopics({ topics: ours });
  });
}

async function witness(url: string, topic: string): Promise<BrokerWitness> {
  await createTopics(url, [topic], 6);
  const reader = await KafkaWitness.create(url, topic);
  return {
    get seen() {
      return reader.seen.map(seenMessage);
    },
    [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
  };
}

function seenMessage({ messageId, type, body, headers: all }: SeenRecord): SeenMessage {
  const { 'content-type': datacontenttype = '', ...travelling } = all;
  const { attributes, headers } = partHeaders(travelling, /^ce_/);
  return { messageId, type, body, attributes: { ...attributes, datacontenttype }, headers };
}

async function send(url: string, topic: string, { attributes, headers, body }: ForeignEvent): Promise<void> {
  const producer = plainKafka(url).producer();
  await producer.connect();
  const prefixed = Object.entries(attributes).map(([name, value]): [string, string] => [`ce_${name}`, value]);
  await producer.send({
    topic,
    messages: [
      {
        key: attributes['partitionkey'] ?? null,
        value: body,
        headers: { 'content-type': 'application/json', ...Object.fromEntries(prefixed), ...headers },
      },
    ],
  });
  await producer.disconnect();
}
