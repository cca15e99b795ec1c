import type { Job, Progress } from './contender.js';
import { openPublisher } from './confirming-publisher.js';
import { openKafkaProducer } from './kafka-producer.js';
import { sequenceOf } from '../order-placed.js';

/** Where a hand-written worker sends a batch. */
export interface BatchSink {
  /** Resolves when all of them are confirmed. */
  send(bodies: readonly string[]): Promise<void>;
  /** So many messages are out of the table, too. */
  settled(count: number): void;
  close(): Promise<void>;
}

export async function openSink(job: Job, progress: Progress): Promise<BatchSink> {
  const settled = (count: number): void => progress.through(count);
  switch (job.sink) {
    case 'rabbitmq': {
      const publisher = await openPublisher(job.broker);
      const send = (bodies: readonly string[]) => publisher.publishAll(bodies.map((body) => Buffer.from(body)));
      return { send, settled, close: () => publisher.close() };
    }
    case 'kafka': {
      const producer = await openKafkaProducer(job.broker);
      return { send: (bodies) => producer.send(bodies), settled, close: () => producer.close() };
    }
    case 'memory': {
      const send = async (bodies: readonly string[]): Promise<void> => {
        for (const body of bodies) progress.saw(sequenceOf(Buffer.from(body)));
      };
      return { send, settled: () => undefined, close: async () => undefined };
    }
    case 'none':
      return { send: async () => undefined, settled, close: async () => undefined };
  }
}
