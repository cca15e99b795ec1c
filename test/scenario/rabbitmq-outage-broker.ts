import { connect } from 'amqplib';

import { startRabbitmq } from '../fixtures/index.js';
import { type SeenMessage, queueConsumed } from './broker-witness.js';
import { type OutageBroker, type OutageWitness, outagePace } from './outage-broker.js';
import { atEnd } from './test-service.js';

/** A RabbitMQ of its own; ended with the test. */
export async function rabbitmqOutageBroker(): Promise<OutageBroker> {
  const server = await startRabbitmq({ private: true });
  atEnd(() => server.stop());
  return {
    url: server.url,
    brokerOptions: {
      heartbeatSeconds: 1,
      confirmTimeoutMs: 30_000 / outagePace,
      reconnectDelayMs: Math.round(200 / outagePace),
      reconnectMaxDelayMs: 30_000 / outagePace,
    },
    witness: (destination) => durableWitness(server.url, destination),
    received: (service) => queueConsumed(server.url, service),
    stop: async () => {
      // RabbitMQ 3.10 forgets a quorum queue whose declaration was not yet on disk when it was killed.
      await server.ctl('eval', '[dets:sync(Table) || Table <- dets:all()].');
      await server.kill();
    },
    start: () => server.start(),
  };
}

/** A queue that nobody consumes until the end. */
async function durableWitness(url: string, exchange: string): Promise<OutageWitness> {
  const queue = `witness-of-${exchange}`;
  const declaring = await connect(url);
  const channel = await declaring.createChannel();
  await channel.assertExchange(exchange, 'topic', { durable: true });
  await channel.assertQueue(queue, { durable: true });
  await channel.bindQueue(queue, exchange, '#');
  await declaring.close();
  return {
    seen: async (messages) => {
      const seen: SeenMessage[] = [];
      const ids = new Set<string>();
      const model = await connect(url, { noDelay: true });
      const reading = await model.createChannel();
      for (;;) {
        const message = await reading.get(queue, { noAck: true });
        // Not before it is empty: duplicates of what was seen already count as well.
        if (message === false) {
          if (ids.size >= messages) break;
          throw new Error(`${ids.size} of ${messages} messages reached the queue`);
        }
        const { messageId, type } = message.properties as { messageId: string; type: string };
        ids.add(messageId);
        seen.push({ messageId, type, body: message.content.toString() });
      }
      await model.close();
      return seen;
    },
  };
}
