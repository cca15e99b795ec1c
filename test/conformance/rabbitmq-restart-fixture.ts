import { setTimeout as delay } from 'node:timers/promises';
import { createTransport } from '@whizbang/transport-rabbitmq';
import { type RabbitmqServer, startRabbitmq } from '../fixtures/index.js';
import type { TransportFixture } from './fixture.js';

/** A RabbitMQ that can be killed, because nobody else uses it. It takes seconds to start, so it is for restarts only. */
export function rabbitmqRestartFixture(queueType: 'classic' | 'quorum'): TransportFixture {
  let server: RabbitmqServer | undefined;
  const maxMessageBytes = 2_000_000;
  const absence = async (awayMs: number): Promise<void> => {
    await server?.flushDirectory();
    await server?.kill();
    await delay(awayMs);
    await server?.start();
  };
  return {
    mode: `${queueType}, killed`,
    themes: ['restart', 'trouble', 'a minute away'],
    // A node that was killed checks its data before it lets anybody in.
    deadlineMs: 60_000,
    capabilities: {
      durable: true,
      orderedStreams: true,
      atomicGroups: true,
      reportsUnroutable: true,
      fanOut: true,
      competingConsumers: true,
      createsTopology: true,
      maxMessageBytes,
    },
    open: async () => {
      server = await startRabbitmq({ private: true });
    },
    createTransport: async () =>
      createTransport(server?.url ?? '', {
        queueType,
        maxMessageBytes,
        reconnectMaxDelayMs: 500,
        confirmTimeoutMs: 5000,
      }),
    restart: () => absence(0),
    ...(queueType === 'quorum' ? { absence } : {}),
    throttle: async (during) => {
      await server?.ctl('set_vm_memory_high_watermark', 'absolute', '1');
      try {
        await during();
      } finally {
        await server?.ctl('set_vm_memory_high_watermark', '0.8');
      }
    },
    close: async () => server?.stop(),
  };
}
