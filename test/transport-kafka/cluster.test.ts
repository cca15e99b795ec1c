import { randomUUID } from 'node:crypto';
import type { OutgoingMessage } from '@whizbang/core/transport';
import { expect, onTestFinished, test } from 'vitest';
import { messagesTo } from '../conformance/messages.js';
import { type KafkaServer, createTopics, startKafka, waitFor } from '../fixtures/index.js';
import { type Watched, idOf, never } from '../fixtures/watched-transport.js';
import { connected, request } from './connected.js';

// Three brokers are up after about twenty seconds on an idle machine of two cores.
test(
  'brokers of a cluster die and come back one after the other: nothing is lost, streams in order',
  { timeout: 300_000 },
  async () => {
    const server: KafkaServer = await startKafka({
      private: true,
      brokers: 3,
      sources: ['system'],
      config: ['broker.session.timeout.ms=3000'],
    });
    onTestFinished(() => server.stop());
    const topic = 'orders';
    await createTopics(server.url, [topic], 3);
    const [publisher, consumer] = [await connected(server.url), await connected(server.url)];
    const received: (string | undefined)[] = [];
    const subscription = await consumer.transport.subscribe(
      request('shipping', topic, { maxBatch: 20 }),
      async (batch) => void received.push(...batch.map(idOf)),
    );
    await subscription.established;

    const streams = Array.from({ length: 6 }, () => messagesTo(topic, 300, { stream: randomUUID() }));
    const published = streams.map((stream) => publishAll(publisher, stream));
    const total = streams.flat().length;
    for (const broker of [0, 1, 2]) {
      const before = received.length;
      await waitFor(() => received.length > before + total / 10 || received.length >= total, {
        message: 'messages to flow',
        timeoutMs: 60_000,
      });
      await server.kill(broker);
      // The others take over while it is away.
      const left = received.length;
      await waitFor(() => received.length > left + 20 || received.length >= total, {
        message: `messages to flow without broker ${broker}`,
        timeoutMs: 60_000,
      });
      await server.start();
    }
    await Promise.all(published);
    const first = (): (string | undefined)[] => [...new Set(received)];
    await waitFor(() => first().length === total, { message: 'all to arrive', timeoutMs: 60_000 });
    for (const stream of streams) {
      const ids = stream.map(({ messageId }) => messageId);
      const mine = new Set<string | undefined>(ids);
      expect(first().filter((id) => mine.has(id))).toEqual(ids);
    }
  },
);

/** As core does: what is not confirmed goes again, and nothing of its stream before it. */
async function publishAll({ transport, isReady }: Watched, messages: readonly OutgoingMessage[]): Promise<void> {
  for (let at = 0; at < messages.length;) {
    await isReady();
    const outcomes = await transport.publish(messages.slice(at, at + 3), never);
    const unconfirmed = outcomes.findIndex(({ kind }) => kind !== 'confirmed');
    at += unconfirmed === -1 ? outcomes.length : unconfirmed;
    await new Promise((resolve) => setTimeout(resolve, unconfirmed === -1 ? 30 : 100));
  }
}
