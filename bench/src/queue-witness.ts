import { waitFor } from '@whizbang/test/fixtures';
import { type Channel, connect } from 'amqplib';

import { OrderPlaced, sequenceOf } from './order-placed.js';
import type { CountingWitness } from './drain-run.js';
import type { BenchServices } from './services.js';
import { type Arrivals, Tally } from './tally.js';

/** A queue that gets everything, whoever publishes, and what is in it. */
export class QueueWitness implements CountingWitness {
  readonly queue: string;
  readonly #channel: Channel;

  private constructor(channel: Channel, queue: string) {
    this.#channel = channel;
    this.queue = queue;
  }

  static async create(services: BenchServices, url: string, queueType: 'quorum' | 'classic'): Promise<QueueWitness> {
    const model = await connect(url, { noDelay: true });
    services.atEnd(() => model.close());
    const channel = await model.createChannel();
    const queue = `witness-${queueType}`;
    await channel.assertExchange(OrderPlaced.destination, 'topic', { durable: true });
    await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': queueType } });
    await channel.bindQueue(queue, OrderPlaced.destination, '#');
    return new QueueWitness(channel, queue);
  }

  async count(): Promise<number> {
    return (await this.#channel.checkQueue(this.queue)).messageCount;
  }

  async purge(): Promise<void> {
    await this.#channel.purgeQueue(this.queue);
  }

  async remove(): Promise<void> {
    await this.#channel.deleteQueue(this.queue);
  }

  /** Takes everything out and says what it was. */
  async read(count: number, streams: number): Promise<Arrivals> {
    const tally = new Tally(count, streams);
    const waiting = await this.count();
    let read = 0;
    await this.#channel.prefetch(1000);
    const { consumerTag } = await this.#channel.consume(this.queue, (message) => {
      if (message === null) return;
      tally.add(sequenceOf(message.content));
      read += 1;
      this.#channel.ack(message);
    });
    await waitFor(() => read >= waiting, { message: 'all messages of the queue', timeoutMs: 120_000, intervalMs: 5 });
    await this.#channel.cancel(consumerTag);
    return tally.arrivals();
  }

  /** Calls for each message as it comes, until the returned function is called. */
  async consume(onMessage: (body: Buffer) => void): Promise<() => Promise<void>> {
    await this.#channel.prefetch(100);
    const { consumerTag } = await this.#channel.consume(this.queue, (message) => {
      if (message === null) return;
      onMessage(message.content);
      this.#channel.ack(message);
    });
    return async () => void (await this.#channel.cancel(consumerTag));
  }
}
