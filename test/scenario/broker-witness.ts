import { type ChannelModel, connect } from 'amqplib';

import { waitFor } from '../fixtures/index.js';

/** Resolves when somebody consumes from a queue; its bindings are made before that. */
export async function queueConsumed(url: string, queue: string): Promise<void> {
  const model = await connect(url, { noDelay: true });
  const isConsumed = async (): Promise<boolean> => {
    const channel = await model.createChannel();
    // Asking for a queue that is not there closes the channel.
    channel.on('error', () => undefined);
    const { consumerCount } = await channel.checkQueue(queue);
    await channel.close();
    return consumerCount > 0;
  };
  await waitFor(isConsumed, { message: `a consumer of queue ${queue}`, timeoutMs: 30_000 });
  await model.close();
}

/** A message as the broker passed it on. */
export interface SeenMessage {
  readonly messageId: string;
  readonly type: string;
  readonly body: string;
}

/**
 * A consumer that knows nothing of Whizbang: a queue of its own on an exchange, which gets what the exchange takes, in its
 * order.
 */
export class BrokerWitness implements AsyncDisposable {
  readonly seen: SeenMessage[] = [];
  readonly #model: ChannelModel;

  private constructor(model: ChannelModel) {
    this.#model = model;
  }

  static async create(url: string, exchange: string): Promise<BrokerWitness> {
    const model = await connect(url, { noDelay: true });
    const witness = new BrokerWitness(model);
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
