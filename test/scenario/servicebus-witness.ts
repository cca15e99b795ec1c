import { ServiceBusClient } from '@azure/service-bus';

import type { SeenMessage } from './broker-witness.js';

/**
 * A receiver that knows nothing of Whizbang: a subscription of its own on a topic, without sessions, which gets what the
 * topic takes, in its order.
 */
export class ServicebusWitness implements AsyncDisposable {
  readonly seen: SeenMessage[] = [];
  readonly #client: ServiceBusClient;

  private constructor(client: ServiceBusClient) {
    this.#client = client;
  }

  /** @param subscription A subscription of `topic` that lets everything through, requires no sessions, and nobody else uses. */
  static async create(connectionString: string, topic: string, subscription: string): Promise<ServicebusWitness> {
    const client = new ServiceBusClient(connectionString);
    const witness = new ServicebusWitness(client);
    const receiver = client.createReceiver(topic, subscription, {
      receiveMode: 'receiveAndDelete',
      skipParsingBodyAsJson: true,
    });
    receiver.subscribe({
      processMessage: async ({ messageId, subject, body }) => {
        witness.seen.push({ messageId: String(messageId), type: String(subject), body: String(body) });
      },
      processError: async () => undefined,
    });
    return witness;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.close();
  }
}
