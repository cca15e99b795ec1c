import { randomUUID } from 'node:crypto';
import type { Delivery } from '@whizbang/core/transport';
import { expect, test } from 'vitest';
import { Hold } from '../conformance/deadline.js';
import { messageTo, messagesTo } from '../conformance/messages.js';
import { createTopics, plainKafka, waitFor, withKafkaAdmin } from '../fixtures/index.js';
import { testKafka } from '../fixtures/test-services.js';
import { arrived, idOf, never } from '../fixtures/watched-transport.js';
import { connected, request } from './connected.js';

test('a service that closes before it has received anything has its place all the same', async () => {
  const { url, prefix: topic } = await testKafka();
  const { transport } = await connected(url, { partitions: 3 });
  const old = messagesTo(topic, 3);
  await transport.publish(old, never);
  const first = await transport.subscribe(request('shipping-' + topic, topic), async () => undefined);
  await first.established;
  await first.close();
  const meanwhile = messagesTo(topic, 10);
  for (const message of meanwhile) await transport.publish([message], never);
  const received: Delivery[] = [];
  await transport.subscribe(request('shipping-' + topic, topic), async (batch) => void received.push(...batch));
  await arrived(received, meanwhile.length);
  expect(new Set(received.map(idOf))).toEqual(new Set(meanwhile.map(({ messageId }) => messageId)));
});

test('two instances that start at the same time lose nothing that comes once either is established', async () => {
  const { url, prefix: topic } = await testKafka();
  const transports = [await connected(url, { partitions: 4 }), await connected(url, { partitions: 4 })];
  await createTopics(url, [topic], 4);
  const received: (string | undefined)[] = [];
  const subscriptions = await Promise.all(
    transports.map(({ transport }) =>
      transport.subscribe(request('shipping-' + topic, topic), async (batch) => void received.push(...batch.map(idOf))),
    ),
  );
  await Promise.any(subscriptions.map(({ established }) => established));
  const sent = messagesTo(topic, 40);
  for (const message of sent) await transports[0]?.transport.publish([message], never);
  await arrived(received, sent.length);
  expect(new Set(received)).toEqual(new Set(sent.map(({ messageId }) => messageId)));
});

test('a new service starts with what comes, or with all there is', async () => {
  const { url, prefix: topic } = await testKafka();
  const old = messagesTo(topic, 3);
  const latest = await connected(url);
  await latest.transport.publish(old, never);
  const earliest = await connected(url, { startFrom: 'earliest' });
  const [fromNow, fromStart]: [Delivery[], Delivery[]] = [[], []];
  const subscription = await latest.transport.subscribe(
    request('now-' + topic, topic),
    async (batch) => void fromNow.push(...batch),
  );
  await earliest.transport.subscribe(request('all-' + topic, topic), async (batch) => void fromStart.push(...batch));
  await subscription.established;
  const next = messageTo(topic);
  await latest.transport.publish([next], never);
  await Promise.all([arrived(fromNow, 1), arrived(fromStart, 4)]);
  expect(fromNow.map(idOf)).toEqual([next.messageId]);
  expect(new Set(fromStart.map(idOf))).toEqual(new Set([...old, next].map(({ messageId }) => messageId)));
});

test('a destination that is new to a running service starts now, not with its history', async () => {
  const { url, prefix } = await testKafka();
  const [orders, payments] = [`${prefix}orders`, `${prefix}payments`];
  const { transport } = await connected(url);
  await transport.publish(messagesTo(payments, 5), never);
  const service = `shipping-${prefix}`;
  const running = await transport.subscribe(request(service, orders), async () => undefined);
  await running.established;
  const newer = await connected(url);
  const received: Delivery[] = [];
  const bindings = [orders, payments].flatMap((destination) => request(service, destination).bindings);
  const subscription = await newer.transport.subscribe(
    request(service, orders, { bindings }),
    async (batch) => void received.push(...batch),
  );
  await subscription.established;
  const next = messageTo(payments);
  await transport.publish([next], never);
  await arrived(received, 1);
  expect(received.map(idOf)).toEqual([next.messageId]);
});

test('what was sent to an added partition before anybody noticed it arrives', { timeout: 60_000 }, async () => {
  const { url, prefix: topic } = await testKafka();
  const { transport } = await connected(url, { partitions: 1 });
  const received: (string | undefined)[] = [];
  const subscription = await transport.subscribe(
    request('shipping-' + topic, topic),
    async (batch) => void received.push(...batch.map(idOf)),
  );
  await subscription.established;
  await transport.publish([messageTo(topic)], never);
  await arrived(received, 1);
  await withKafkaAdmin(url, (admin) => admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] }));
  const publisher = await connected(url);
  const sent = Array.from({ length: 30 }, () => messageTo(topic, { stream: randomUUID() }));
  await publisher.transport.publish(sent, never);
  await arrived(received, 31);
  expect(new Set(received.slice(1))).toEqual(new Set(sent.map(({ messageId }) => messageId)));
});

test('a handler that takes longer than the session timeout keeps its partitions', { timeout: 60_000 }, async () => {
  const { url, prefix: topic } = await testKafka();
  const [first, second] = [
    await connected(url, { sessionTimeoutMs: 6_000, partitions: 1 }),
    await connected(url, { sessionTimeoutMs: 6_000 }),
  ];
  const hold = new Hold();
  const calls: string[] = [];
  const active = await first.transport.subscribe(request('shipping-' + topic, topic), async () => {
    calls.push('first');
    await hold.wait();
  });
  await active.established;
  const standby = await second.transport.subscribe(request('shipping-' + topic, topic), async () => {
    calls.push('second');
  });
  await standby.established;
  await first.transport.publish([messageTo(topic)], never);
  await arrived(calls, 1);
  const started = performance.now();
  // Nothing is to happen in this time, so there is nothing to wait for but the time.
  await new Promise((resolve) => setTimeout(resolve, 8_000));
  hold.release();
  await active.close();
  const next = messageTo(topic);
  await first.transport.publish([next], never);
  await arrived(calls, 2);
  expect(performance.now() - started).toBeGreaterThan(6_000);
  expect(calls).toEqual(['first', 'second']);
});

test('a rebalance waits for the handler in hand: nothing comes twice, and streams keep their order', async () => {
  const { url, prefix: topic } = await testKafka();
  const [first, second] = [await connected(url, { partitions: 2 }), await connected(url)];
  const hold = new Hold();
  const received: Delivery[] = [];
  let calls = 0;
  const active = await first.transport.subscribe(
    request('shipping-' + topic, topic, { maxBatch: 3 }),
    async (batch) => {
      calls += 1;
      if (calls === 1) await hold.wait();
      received.push(...batch);
    },
  );
  await active.established;
  const streams = Array.from({ length: 8 }, () => randomUUID());
  const sent = Array.from({ length: 10 }, () => streams.map((stream) => messageTo(topic, { stream }))).flat();
  await first.transport.publish(sent, never);
  await waitFor(() => calls > 0, { message: 'a call' });
  const joining = await second.transport.subscribe(
    request('shipping-' + topic, topic, { maxBatch: 3 }),
    async (batch) => {
      received.push(...batch);
    },
  );
  let joined = false;
  void joining.established.then(() => (joined = true));
  // As long as a few heartbeats, by which the first learns of the second.
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  expect(joined).toBe(false);
  hold.release();
  await joining.established;
  await arrived(received, sent.length);
  expect(received.length).toBe(sent.length);
  expect(received.filter(({ redelivered }) => redelivered)).toEqual([]);
  for (const stream of streams) {
    const ids = received.filter(({ attributes }) => attributes['partitionkey'] === stream).map(idOf);
    expect(ids).toEqual(sent.filter(({ streamId }) => streamId === stream).map(({ messageId }) => messageId));
  }
});

test('a CloudEvent of a plain producer arrives with its attributes, and its key as the partition key', async () => {
  const { url, prefix: topic } = await testKafka();
  const { transport } = await connected(url);
  const received: Delivery[] = [];
  const subscription = await transport.subscribe(
    request('shipping-' + topic, topic, { bindings: [{ destination: topic, messageTypes: ['order.placed'] }] }),
    async (batch) => void received.push(...batch),
  );
  await subscription.established;
  const producer = plainKafka(url).producer();
  await producer.connect();
  const headers = {
    ce_id: '7',
    ce_source: '/elsewhere',
    ce_specversion: '1.0',
    ce_type: 'order.placed',
    'content-type': 'application/json',
    'x-mine': 'yes',
  };
  await producer.send({ topic, messages: [{ key: 'order-7', value: '{"total":7}', headers }] });
  await producer.disconnect();
  await arrived(received, 1);
  expect(received).toEqual([
    {
      attributes: {
        id: '7',
        source: '/elsewhere',
        specversion: '1.0',
        type: 'order.placed',
        datacontenttype: 'application/json',
        partitionkey: 'order-7',
      },
      headers: { 'x-mine': 'yes' },
      body: Buffer.from('{"total":7}'),
      destination: topic,
      redelivered: false,
    },
  ]);
});

test(
  'a destination that is missing does not stop the others, and is found when it comes',
  { timeout: 60_000 },
  async () => {
    const { url, prefix } = await testKafka();
    const [present, missing] = [`${prefix}present`, `${prefix}missing`];
    await createTopics(url, [present]);
    const { transport, log } = await connected(url, { declare: false });
    const received: Delivery[] = [];
    const service = `shipping-${prefix}`;
    const bindings = [missing, present].flatMap((destination) => request(service, destination).bindings);
    const subscription = await transport.subscribe(
      request(service, present, { bindings }),
      async (batch) => void received.push(...batch),
    );
    await waitFor(
      async () => {
        await transport.publish([messageTo(present)], never);
        return received.length > 0;
      },
      { message: 'a delivery from the topic that is there', timeoutMs: 20_000, intervalMs: 200 },
    );
    expect(log).toEqual([expect.stringMatching(/missing" is missing, and the option declare is false/)]);
    await createTopics(url, [missing]);
    await subscription.established;
    const found = messageTo(missing);
    await transport.publish([found], never);
    await waitFor(() => received.some((delivery) => idOf(delivery) === found.messageId), {
      message: 'a delivery from the topic that came',
    });
  },
);
