import { plainKafka } from '@whizbang/test/fixtures';

import { type Order, OrderPlaced } from '../order-placed.js';

export interface KafkaProducer {
  /** One send of all of them, keyed by order; resolves when all in-sync replicas have them. */
  send(bodies: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export async function openKafkaProducer(url: string): Promise<KafkaProducer> {
  const producer = plainKafka(url).producer({ allowAutoTopicCreation: false });
  await producer.connect();
  return {
    send: async (bodies) => {
      const messages = bodies.map((value) => ({ key: (JSON.parse(value) as Order).order, value }));
      await producer.send({ topic: OrderPlaced.destination, acks: -1, messages });
    },
    close: () => producer.disconnect(),
  };
}
