import { setTimeout as delay } from 'node:timers/promises';
import { createTransport } from '@whizbang/transport-kafka';
import { type KafkaServer, startKafka } from '../fixtures/index.js';
import type { TransportFixture } from './fixture.js';
import { maxMessageBytes } from './kafka-fixture.js';

/** A Kafka that can be killed, because nobody else uses it. It takes seconds to start, so it is for restarts only. */
export function kafkaRestartFixture(): TransportFixture {
  let server: KafkaServer | undefined;
  const absence = async (awayMs: number): Promise<void> => {
    await server?.kill();
    await delay(awayMs);
    await server?.start();
  };
  return {
    mode: 'killed',
    themes: ['restart', 'a minute away'],
    // A broker that was killed checks its data before it lets anybody in.
    deadlineMs: 60_000,
    capabilities: {
      durable: true,
      orderedStreams: true,
      atomicGroups: true,
      reportsUnroutable: false,
      fanOut: true,
      competingConsumers: false,
      createsTopology: true,
      maxMessageBytes,
    },
    open: async () => {
      server = await startKafka({ private: true });
    },
    createTransport: async () =>
      createTransport(server?.url ?? '', { partitions: 3, maxMessageBytes, reconnectMaxDelayMs: 500 }),
    restart: () => absence(0),
    absence,
    close: async () => server?.stop(),
  };
}
