import { type ChannelModel, connect } from 'amqplib';

import { testBroker } from '../../fixtures/test-services.js';
import type { BrokerKind, BrokerWitness, SeenMessage } from './scenario-broker.js';

export const rabbitmq: BrokerKind = {
  name: 'RabbitMQ',
  shared: async () => {
    const { url } = await testBroker();
    return { url, witness: (destination) => RabbitmqWitness.create(url, destination) };
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
    await channel.consume(
      queue,
      (message) => {
        if (message === null) return;
        const { messageId, type } = message.properties as { messageId: string; type: string };
        witness.seen.push({ messageId, type, body: message.content.toString() });
      },
      { noAck: true },
    );
    return witness;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#model.close();
  }
}
