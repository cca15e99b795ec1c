import { type ChannelModel, type ConsumeMessage, connect } from 'amqplib';

import { testBroker } from '../../fixtures/test-services.js';
import type { BrokerKind, BrokerWitness, ForeignEvent, SeenMessage } from './scenario-broker.js';

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
};

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

function seenMessage({ properties, content }: ConsumeMessage): SeenMessage {
  const all = Object.entries<string>(properties.headers ?? {});
  const isAttribute = ([name]: [string, string]): boolean => /^cloudEvents[_:]/.test(name);
  const attributes = Object.fromEntries(
    all.filter(isAttribute).map(([name, value]) => [name.slice('cloudEvents_'.length), value]),
  );
  return {
    messageId: attributes['id'] ?? '',
    type: attributes['type'] ?? '',
    body: content.toString(),
    attributes: { ...attributes, datacontenttype: properties.contentType as string },
    headers: Object.fromEntries(all.filter((entry) => !isAttribute(entry))),
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
