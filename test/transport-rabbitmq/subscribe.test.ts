import { randomUUID } from 'node:crypto';
import type { Delivery, SubscriptionRequest, Transport } from '@whizbang/core/transport';
import { describe, expect, test } from 'vitest';
import { defaultType, messageTo, messagesTo } from '../conformance/messages.js';
import { waitFor } from '../fixtures/wait-for.js';
import { testBroker } from '../fixtures/test-services.js';
import { arrived, firstOfEach, idOf, never } from '../fixtures/watched-transport.js';
import { connected, rawChannel } from './connected.js';

function request(name: string, parts: Partial<SubscriptionRequest> = {}): SubscriptionRequest {
  return {
    service: name,
    bindings: [{ destination: name, messageTypes: [defaultType] }],
    ordered: true,
    maxBatch: 50,
    prefetch: 200,
    ...parts,
  };
}

/** The queue exists once a message can be routed to it. */
async function publishRouted(transport: Transport, destination: string, count: number): Promise<string[]> {
  const stream = randomUUID();
  const messages = messagesTo(destination, count, { stream });
  let left = messages;
  await waitFor(
    async () => {
      const outcomes = await transport.publish(left, never);
      left = left.filter((_, index) => outcomes[index]?.kind !== 'confirmed');
      return left.length === 0;
    },
    { message: `${count} messages to be confirmed`, timeoutMs: 30_000 },
  );
  return messages.map(({ messageId }) => messageId);
}

describe.each(['quorum', 'classic'] as const)('%s queue', (queueType) => {
  test('rejected deliveries stay here: in order, marked, and not counted by the broker', async () => {
    const { url, prefix } = await testBroker();
    const { transport, log } = await connected(url, { queueType });
    const accepted: Delivery[] = [];
    const calls: Delivery[][] = [];
    await transport.subscribe(request(prefix), async (batch) => {
      calls.push([...batch]);
      if (calls.length <= 3) throw new Error('the database is away');
      accepted.push(...batch);
    });
    const ids = await publishRouted(transport, prefix, 120);
    await arrived(accepted, ids.length);
    expect(accepted.map((delivery) => idOf(delivery))).toEqual(ids);
    const firstIds = calls.slice(0, 4).map(([first]) => idOf(first as Delivery));
    expect(new Set(firstIds)).toEqual(new Set([ids[0]]));
    expect(calls.slice(0, 4).map(([first]) => first?.redelivered)).toEqual([false, true, true, true]);
    expect(log).toEqual([
      expect.stringContaining('failed: the database is away'),
      expect.stringContaining('works again'),
    ]);
  });

  test('what a closed subscription leaves goes to the next one in order', async () => {
    const { url, prefix } = await testBroker();
    const { transport } = await connected(url, { queueType });
    const seen: string[] = [];
    let hold: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (hold = resolve));
    const first = await transport.subscribe(request(prefix, { maxBatch: 10 }), async (batch) => {
      await held;
      seen.push(...batch.map((delivery) => String(idOf(delivery))));
    });
    const ids = await publishRouted(transport, prefix, 150);
    const closing = first.close();
    await transport.subscribe(request(prefix, { maxBatch: 10 }), async (batch) => {
      seen.push(...batch.map((delivery) => String(idOf(delivery))));
    });
    hold();
    await closing;
    await arrived(seen, ids.length);
    expect(seen).toEqual(ids);
  });

  test('a deleted queue is created and consumed again', async () => {
    const { url, prefix } = await testBroker();
    const { transport, log } = await connected(url, { queueType });
    const deliveries: Delivery[] = [];
    await transport.subscribe(request(prefix), async (batch) => void deliveries.push(...batch));
    await publishRouted(transport, prefix, 3);
    await arrived(deliveries, 3);
    await (await rawChannel(url)).deleteQueue(prefix);
    await waitFor(() => log.some((line) => line.includes('works again')), { message: 'the new consumer' });
    expect(log[0]).toContain('the broker cancelled the consumer');
    await publishRouted(transport, prefix, 3);
    await arrived(deliveries, 6);
  });

  test('a broken connection: what was in hand comes again, in order, and stale acknowledgements do no harm', async () => {
    const broker = await testBroker();
    const { url, prefix } = broker;
    const publisher = await connected(url, { queueType });
    const { transport } = await connected(url, { queueType });
    const seen: (string | undefined)[] = [];
    let cut = false;
    await transport.subscribe(request(prefix, { maxBatch: 20 }), async (batch) => {
      seen.push(...batch.map((delivery) => idOf(delivery)));
      if (cut || seen.length < 60) return;
      cut = true;
      const names = (await broker.ctl('list_connections', 'pid', 'client_properties')).split('\n');
      const receiving = names.filter((line) => line.includes('whizbang receiving'));
      for (const line of receiving) await broker.ctl('close_connection', line.split('\t')[0] as string, 'test');
    });
    const ids = await publishRouted(publisher.transport, prefix, 300);
    await waitFor(() => new Set(seen).size === ids.length, { message: 'all messages', timeoutMs: 30_000 });
    expect(firstOfEach(seen)).toEqual(ids);
    expect(cut).toBe(true);
  });
});

test('quorum queues by default, without a limit of deliveries and with a single active consumer', async () => {
  const { url, prefix } = await testBroker();
  const { transport } = await connected(url);
  await transport.subscribe(request(prefix), async () => undefined);
  await publishRouted(transport, prefix, 1);
  const channel = await rawChannel(url);
  const declaring = channel.assertQueue(prefix, {
    durable: true,
    arguments: { 'x-queue-type': 'quorum', 'x-delivery-limit': 2_147_483_647, 'x-single-active-consumer': true },
  });
  await expect(declaring).resolves.toMatchObject({ queue: prefix, consumerCount: 1 });
});

test('a queue with other arguments: one clear sentence, publishing goes on', async () => {
  const { url, prefix } = await testBroker();
  const channel = await rawChannel(url);
  await channel.assertQueue(prefix, {
    durable: true,
    arguments: { 'x-queue-type': 'classic', 'x-single-active-consumer': true, 'x-max-length': 5 },
  });
  const { transport, log } = await connected(url);
  await transport.subscribe(request(prefix), async () => undefined);
  await waitFor(() => log.length > 0, { message: 'the sentence' });
  expect(log).toEqual([
    expect.stringMatching(
      /^warn: receiving from queue "t-.*" failed: queue "t-.*" cannot be created: .*inequivalent arg 'x-(queue-type|max-length|delivery-limit)'.*delete it once it is empty.*declare=false/,
    ),
  ]);
  expect(transport.ready()).toBe(true);
  await channel.bindQueue(prefix, prefix, '#');
  expect(await transport.publish([messageTo(prefix)], never)).toEqual([{ kind: 'confirmed' }]);
});

test('with declare=false a missing queue is named, and found once it is there', async () => {
  const { url, prefix } = await testBroker();
  const channel = await rawChannel(url);
  await channel.assertExchange(prefix, 'topic', { durable: true });
  const { transport, log } = await connected(url, { declare: false });
  const deliveries: Delivery[] = [];
  await transport.subscribe(request(prefix), async (batch) => void deliveries.push(...batch));
  await waitFor(() => log.length > 0, { message: 'the sentence' });
  expect(log[0]).toMatch(/queue ".*" is missing, and the option declare is false/);
  await channel.assertQueue(prefix, { durable: true });
  await channel.bindQueue(prefix, prefix, defaultType);
  await transport.publish([messageTo(prefix)], never);
  await arrived(deliveries, 1);
});

test('a handler that throws instead of rejecting is tried again', async () => {
  const { url, prefix } = await testBroker();
  const { transport } = await connected(url);
  let calls = 0;
  await transport.subscribe(request(prefix), () => {
    calls += 1;
    if (calls === 1) throw new Error('not even a promise');
    return Promise.resolve();
  });
  await publishRouted(transport, prefix, 1);
  await waitFor(() => calls === 2, { message: 'the second call' });
  expect(transport.ready()).toBe(true);
});

test('a foreign sender with nothing but a routing key', async () => {
  const { url, prefix } = await testBroker();
  const { transport } = await connected(url);
  const deliveries: Delivery[] = [];
  await transport.subscribe(request(prefix), async (batch) => void deliveries.push(...batch));
  await publishRouted(transport, prefix, 1);
  await arrived(deliveries, 1);
  const channel = await rawChannel(url);
  channel.publish(prefix, defaultType, Buffer.from('text'), { headers: { n: 1, list: ['a', { b: true }] } });
  await arrived(deliveries, 2);
  expect(deliveries[1]).toMatchObject({
    attributes: { type: defaultType },
    headers: { n: '1', list: '["a",{"b":true}]' },
    destination: prefix,
    redelivered: false,
  });
});

test('malformed subscriptions are refused with all their violations', async () => {
  const { url } = await testBroker();
  const { transport } = await connected(url);
  const malformed = request('', {
    maxBatch: 0,
    prefetch: 1.5,
    bindings: [{ destination: 'x'.repeat(256), messageTypes: [''] }],
  });
  await expect(transport.subscribe(malformed, async () => undefined)).rejects.toThrow(
    /service: .*bindings.0.destination: .*bindings.0.messageTypes.0: .*maxBatch: .*prefetch: /,
  );
});
