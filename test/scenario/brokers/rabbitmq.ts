import { type ChannelModel, type Message, connect } from 'amqplib';

import { startRabbitmq } from '../../fixtures/index.js';
import { testBroker } from '../../fixtures/test-services.js';
import { atEnd } from '../test-service.js';
import { partHeaders } from './binary-mode.js';
import {
  type BrokerKind,
  type BrokerWitness,
  type ForeignEvent,
  type OutageWitness,
  type SeenMessage,
  outagePace,
} from './scenario-broker.js';

export const rabbitmq: BrokerKind = {
  name: 'RabbitMQ',
  shared: async () => {
    const { url } = await testBroker();
    return {
      url,
      witness: (destination) => RabbitmqWitness.create(url, destination),
      send: (destination, event) => send(url, destination, event),
    };
  },
  fragile: async () => {
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
      stop: async () => {
        await server.flushDirectory();
        await server.kill();
      },
      start: () => server.start(),
    };
  },
};

/** A queue that nobody consumes until the end. */
export async function durableWitness(url: string, exchange: string): Promise<OutageWitness> {
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
      const model = await connect(url, { noDelay: true });
      const reading = await model.createChannel();
      for (;;) {
        const message = await reading.get(queue, { noAck: true });
        // Not before it is empty: duplicates of what was seen already count as well.
        if (message === false) break;
        seen.push(seenMessage(message));
      }
      await model.close();
      const ids = new Set(seen.map(({ messageId }) => messageId));
      if (ids.size < messages) throw new Error(`${ids.size} of ${messages} messages reached the queue`);
      return seen;
    },
  };
}

/** A queue of its own on the exchange. */
class RabbitmqWitness implements BrokerWitness {
  readonly seen: SeenMessage[] = [];
  readonly #model: ChannelModel;

  private constructor(model: ChannelModel) {
    this.#model = model;
  }

  static async create(url: string, exchange: string): Promise<RabbitmqWitness> {
    const model = await connect(url, { noDelay: true });
    const witness = new RabbitmqWitness(model);
    const channel = await model.createChannel();
    await channel.assertExchange(exchange, 'topic', { durable: true });
    const { queue } = await channel.assertQueue('', { exclusive: true });
    await channel.bindQueue(queue, exchange, '#');
    await channel.consume(queue, (message) => message !== null && witness.seen.push(seenMessage(message)), {
      noAck: true,
    });
    return witness;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#model.close();
  }
}

function seenMessage({ properties, content }: Pick<Message, 'properties' | 'content'>): SeenMessage {
  const { attributes, headers } = partHeaders(properties.headers ?? {}, /^cloudEvents[_:]/);
  return {
    messageId: attributes['id'] ?? '',
    type: attributes['type'] ?? '',
    body: content.toString(),
    attributes: { ...attributes, datacontenttype: properties.contentType as string },
    headers,
  };
}

async function send(url: string, exchange: string, { attributes, headers, body }: ForeignEvent): Promise<void> {
  const model = await connect(url);
  const channel = await model.createConfirmChannel();
  const prefixed = Object.entries(attributes).map(([name, value]): [string, string] => [`cloudEvents:${name}`, value]);
  channel.publish(exchange, attributes['type'] ?? '', Buffer.from(body), {
    contentType: 'application/json',
    headers: Object.fromEntries([...prefixed, ...Object.entries(headers)]),
  });
  await channel.waitForConfirms();
  await model.close();
}
