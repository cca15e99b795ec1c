import { connect } from 'amqplib';

import { OrderPlaced } from '../order-placed.js';

export interface ConfirmingPublisher {
  /** Resolves when the broker has confirmed it. */
  publish(body: Buffer): Promise<void>;
  /** All at once; resolves when the broker has confirmed all of them. */
  publishAll(bodies: readonly Buffer[]): Promise<void>;
  close(): Promise<void>;
}

/** amqplib as a careful application uses it: persistent messages, confirms, no Nagle. */
export async function openPublisher(url: string): Promise<ConfirmingPublisher> {
  const model = await connect(url, { noDelay: true });
  const channel = await model.createConfirmChannel();
  const options = { persistent: true, contentType: 'application/json' };
  const publish = (body: Buffer): Promise<void> =>
    new Promise((resolve, reject) => {
      channel.publish(OrderPlaced.destination, OrderPlaced.type, body, options, (error: unknown) => {
        if (error === null || error === undefined) resolve();
        else reject(new Error('the broker did not confirm', { cause: error }));
      });
    });
  return {
    publish,
    publishAll: async (bodies) => {
      for (const body of bodies) channel.publish(OrderPlaced.destination, OrderPlaced.type, body, options);
      await channel.waitForConfirms();
    },
    close: () => model.close(),
  };
}
