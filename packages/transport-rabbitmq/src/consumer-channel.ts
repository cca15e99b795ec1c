import { type Delivery, type SubscriptionRequest, settlesWithin } from '@whizbang/core/transport';
import type { ConsumeMessage } from 'amqplib';
import type { LiveConnection } from './connection.js';
import { decodeDelivery } from './headers.js';

/**
 * One channel with one consumer, and the deliveries of it that are not acknowledged. Delivery tags mean nothing on another
 * channel, so after a reconnect there is a new one of these, and what this one holds comes again on that.
 */
export interface ConsumerChannel {
  /** Resolves with the cause when it has ended: channel or connection closed, or the consumer cancelled by the broker. */
  readonly ended: Promise<Error>;
  /** The oldest deliveries, up to `most`; they stay here until they are acknowledged. Empty when the channel has ended. */
  take(most: number): Delivery[];
  /** The oldest `count` deliveries are done with. Does nothing when the channel has ended. */
  acknowledge(count: number): void;
  /** The oldest `count` deliveries will be handed over again. */
  rejected(count: number): void;
  /** Gives everything back to the broker, in order, and ends. */
  close(ms: number): Promise<void>;
}

export async function openConsumer(
  live: LiveConnection,
  { service, prefetch }: SubscriptionRequest,
  onDelivery: () => void,
): Promise<ConsumerChannel> {
  const channel = await live.model.createChannel();
  const held: ConsumeMessage[] = [];
  let open = true;
  let handedOver = 0;
  let cause: Error | undefined;
  const ended = new Promise<Error>((resolve) => {
    channel.on('error', (error) => (cause = error));
    channel.on('close', () => {
      open = false;
      held.length = 0;
      setImmediate(() => resolve(cause ?? live.endedBy ?? new Error('the channel was closed')));
    });
  });
  const close = (): Promise<void> => Promise.resolve().then(() => channel.close());
  // 16 bits on the wire.
  await channel.prefetch(Math.min(prefetch, 65_535));
  await channel.consume(service, (message) => {
    if (message === null) {
      cause = new Error('the broker cancelled the consumer (queue deleted, or a delivery unacknowledged for too long)');
      void close().catch(() => undefined);
      return;
    }
    held.push(message);
    onDelivery();
  });
  return {
    ended,
    take: (most) =>
      open
        ? held
            .slice(0, most)
            .map((message, index) => decodeDelivery(message, message.fields.redelivered || index < handedOver))
        : [],
    acknowledge(count) {
      const last = held[count - 1];
      if (!open || last === undefined) return;
      try {
        channel.ack(last, true);
        held.splice(0, count);
        handedOver = Math.max(0, handedOver - count);
      } catch {
        // The channel is closing; the broker delivers them again.
      }
    },
    rejected(count) {
      handedOver = Math.max(handedOver, Math.min(count, held.length));
    },
    async close(ms) {
      if (!open) return;
      await settlesWithin(close(), ms);
    },
  };
}
