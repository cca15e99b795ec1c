import { randomUUID } from 'node:crypto';
import type { Delivery, OutgoingMessage, Transport } from '@whizbang/core/transport';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultType, interleaved, messageTo, messagesTo } from '../conformance/messages.js';
import { type RabbitmqServer, startRabbitmq, waitFor } from '../fixtures/index.js';
import { arrived, firstOfEach, idOf, never, outcomeText } from '../fixtures/watched-transport.js';
import { connected, drain, rawChannel } from './connected.js';

const limit = 100_000;
let server: RabbitmqServer;

beforeAll(async () => {
  server = await startRabbitmq({ private: true, config: [`max_message_size = ${limit}`] });
});
afterAll(async () => {
  await server?.stop();
});

async function queueFor(destination: string): Promise<Awaited<ReturnType<typeof rawChannel>>> {
  const channel = await rawChannel(server.url);
  await channel.assertExchange(destination, 'topic', { durable: true });
  await channel.assertQueue(destination, { durable: true });
  await channel.bindQueue(destination, destination, '#');
  return channel;
}

/** As core does it: what is not confirmed is published again, a stream from its first message on that was not. */
async function publishUntilConfirmed(transport: Transport, messages: readonly OutgoingMessage[]): Promise<void> {
  let left = [...messages];
  await waitFor(
    async () => {
      const outcomes = await transport.publish(left, never);
      left = left.filter((_, index) => outcomes[index]?.kind !== 'confirmed');
      return left.length === 0;
    },
    { message: 'all messages to be confirmed', timeoutMs: 100_000 },
  );
}

/** Each stream's messages in the order in which they first reached the queue. */
function expectStreamsInOrder(ids: readonly string[], batch: readonly OutgoingMessage[]): void {
  const streamOf = new Map(batch.map(({ messageId, streamId }) => [messageId, streamId]));
  for (const stream of new Set(streamOf.values())) {
    expect(firstOfEach(ids.filter((id) => streamOf.get(id) === stream))).toEqual(
      batch.filter(({ streamId }) => streamId === stream).map(({ messageId }) => messageId),
    );
  }
}

test('a message above the limit of the broker fails alone in the middle of a batch, and teaches the limit', async () => {
  const destination = 'oversize';
  const channel = await queueFor(destination);
  const { transport } = await connected(server.url);
  expect(transport.capabilities.maxMessageBytes).toBeGreaterThanOrEqual(16 * 2 ** 20);
  const batch = Array.from({ length: 90 }, (_, n) =>
    messageTo(destination, { body: Buffer.alloc(n % 30 === 15 ? limit + 1 : 1000) }),
  );
  const expected = batch.map(({ body }) => (body.length > limit ? 'failed MessageBodyTooLarge' : 'confirmed'));
  expect((await transport.publish(batch, never)).map((outcome) => outcomeText(outcome))).toEqual(expected);
  expect(transport.capabilities.maxMessageBytes).toBe(limit);
  expect(new Set(await drain(channel, destination)).size).toBe(87);
  // Now it is known before sending, so nothing is sent twice.
  expect((await transport.publish(batch, never)).map((outcome) => outcomeText(outcome))).toEqual(expected);
  expect(await drain(channel, destination)).toHaveLength(87);
});

test('a memory alarm: not ready with its cause, unsent given back, sent ones confirmed after it', async () => {
  const destination = 'blocked';
  const channel = await queueFor(destination);
  const { transport, readiness, isReady } = await connected(server.url, { publishWindow: 10 });
  expect(await transport.publish([messageTo(destination)], never)).toEqual([{ kind: 'confirmed' }]);
  await server.ctl('set_vm_memory_high_watermark', 'absolute', '1');
  const batch = messagesTo(destination, 30);
  const publishing = transport.publish(batch, never);
  try {
    await isReady(false);
    expect(readiness.at(-1)?.[1]).toMatch(/takes no messages for now.*memory/);
    expect(await transport.publish([messageTo(destination)], never)).toEqual([{ kind: 'notAttempted' }]);
  } finally {
    await server.ctl('set_vm_memory_high_watermark', '0.8');
  }
  const outcomes = (await publishing).map((outcome) => outcomeText(outcome));
  expect(new Set(outcomes)).toEqual(new Set(['confirmed', 'notAttempted']));
  await isReady();
  const confirmed = batch.filter((_, index) => outcomes[index] === 'confirmed').map(({ messageId }) => messageId);
  expect((await drain(channel, destination)).slice(1)).toEqual(confirmed);
});

test('an alarm that lasts: what was sent fails as throttled; receiving goes on; close does not wait', async () => {
  const destination = 'blocked-long';
  const deliveries: Delivery[] = [];
  const { transport, isReady } = await connected(server.url, { confirmTimeoutMs: 500 });
  await transport.subscribe(
    {
      service: destination,
      bindings: [{ destination, messageTypes: [defaultType] }],
      ordered: true,
      maxBatch: 1,
      prefetch: 1,
    },
    async (batch) => void deliveries.push(...batch),
  );
  await publishUntilConfirmed(transport, messagesTo(destination, 1));
  await arrived(deliveries, 1);
  await server.ctl('set_vm_memory_high_watermark', 'absolute', '1');
  try {
    const [outcome] = await transport.publish([messageTo(destination)], never);
    expect(outcome && outcomeText(outcome)).toBe('failed Throttled, retry');
    await isReady(false);
    const before = performance.now();
    await transport.close();
    expect(performance.now() - before).toBeLessThan(5000);
  } finally {
    await server.ctl('set_vm_memory_high_watermark', '0.8');
  }
});

test.each([
  ['the broker closes all connections', () => server.ctl('close_all_connections', 'test')],
  ['the broker restarts', () => server.restart()],
  ['the broker is killed', () => server.kill().then(() => server.start())],
])(
  '%s while publishing and receiving: nothing lost, streams in order',
  async (what, interfere) => {
    const destination = `trouble-${randomUUID()}`;
    const deliveries: Delivery[] = [];
    const { transport, isReady, readiness } = await connected(server.url);
    const watcher = await connected(server.url);
    await watcher.transport.subscribe(
      {
        service: destination,
        bindings: [{ destination, messageTypes: [defaultType] }],
        ordered: true,
        maxBatch: 50,
        prefetch: 100,
      },
      async (batch) => void deliveries.push(...batch),
    );
    await publishUntilConfirmed(transport, messagesTo(destination, 1));
    await arrived(deliveries, 1);
    // Of a queue that is younger than the directory on disk, nobody knows after a kill.
    expect(await server.ctl('list_queues', 'name')).toContain(destination);
    await server.flushDirectory();

    const batch = interleaved(destination, 20, 200);
    const publishing = publishUntilConfirmed(transport, batch);
    await arrived(deliveries, 50);
    await interfere();
    await publishing;
    await waitFor(() => new Set(deliveries.map((delivery) => idOf(delivery))).size === batch.length + 1, {
      message: `all messages after: ${what}`,
      timeoutMs: 60_000,
    });
    expectStreamsInOrder(
      deliveries.map((delivery) => String(idOf(delivery))),
      batch,
    );
    await isReady();
    expect(readiness.map(([ready]) => ready)).toContain(false);
  },
  120_000,
);

test('messages in flight when the connection dies fail as retryable, unsent ones are given back', async () => {
  const destination = 'cut';
  await queueFor(destination);
  const { transport, isReady } = await connected(server.url, {
    publishWindow: 10,
    reconnectDelayMs: 500,
    reconnectMaxDelayMs: 500,
  });
  await publishUntilConfirmed(transport, messagesTo(destination, 1));
  const publishing = Array.from({ length: 20 }, () => transport.publish(messagesTo(destination, 1000), never));
  await server.ctl('close_all_connections', 'test');
  const outcomes = (await Promise.all(publishing)).flat();
  const kinds = new Set(outcomes.map((outcome) => outcomeText(outcome)));
  for (const kind of kinds) {
    expect([
      'confirmed',
      'notAttempted',
      'failed TransportNotReady, retry',
      'failed TransportException, retry',
    ]).toContain(kind);
  }
  expect(outcomes.filter(({ kind }) => kind === 'failed').length).toBeLessThanOrEqual(10);
  await isReady();
});
