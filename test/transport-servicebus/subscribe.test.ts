import type { Delivery } from '@whizbang/core/transport';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { defaultType, messageTo, messagesTo, newStream } from '../conformance/messages.js';
import { waitFor } from '../fixtures/wait-for.js';
import { ServicebusStandIn } from '../fixtures/servicebus/stand-in/stand-in.js';
import { arrived, firstOfEach, idOf, never } from '../fixtures/watched-transport.js';
import { connected, idsOf, subscribed } from './connected.js';

let standIn: ServicebusStandIn;

beforeAll(async () => {
  standIn = await ServicebusStandIn.start();
});
afterEach(() => standIn.faults.clear());
afterAll(() => standIn?.stop());

const subscriptionOf = (destination: string): string => `${destination}/Subscriptions/shipping`;
const deadLettersOf = (destination: string): number =>
  standIn.namespace.findQueue(subscriptionOf(destination))?.deadLetters.readyCount ?? 0;

function gate(): { readonly open: () => void; readonly opened: Promise<void> } {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { open, opened };
}

describe.each([
  ['of a session', true],
  ['of messages', false],
] as const)('locks %s', (_, ordered) => {
  const stream = newStream();

  test('are kept while a handler takes longer than they last', async () => {
    const destination = `long-${ordered}`;
    await standIn.createTopic(destination);
    await standIn.createSubscription(destination, 'shipping', { requiresSession: ordered, lockDurationMs: 2000 });
    const { transport } = await connected(standIn);
    const hold = gate();
    const { deliveries } = await subscribed(transport, destination, { ordered }, () => hold.opened);
    const batch = messagesTo(destination, 3, { stream });
    await transport.publish(batch, never);
    await arrived(deliveries, 1);
    const renewals = standIn.faults.inject({
      on: 'manage',
      entity: subscriptionOf(destination),
      effect: { kind: 'delay', ms: 0 },
    });
    const started = performance.now();
    const times = ordered ? 4 : 12;
    await waitFor(() => renewals.struck >= times && performance.now() - started > 2500, {
      message: 'the locks to be renewed again and again',
    });
    hold.open();
    await arrived(deliveries, 3);
    const last = messageTo(destination, { stream });
    await transport.publish([last], never);
    await arrived(deliveries, 4);
    expect(idsOf(deliveries)).toEqual([...batch, last].map(({ messageId }) => messageId));
    expect(deliveries.some(({ redelivered }) => redelivered)).toBe(false);
  });

  test('that are lost in the middle of handling bring the messages back, in order', async () => {
    const destination = `lost-${ordered}`;
    await standIn.createTopic(destination);
    await standIn.createSubscription(destination, 'shipping', { requiresSession: ordered, maxDeliveryCount: 100 });
    const { transport } = await connected(standIn);
    const hold = gate();
    const { deliveries } = await subscribed(transport, destination, { ordered }, () => hold.opened);
    const batch = messagesTo(destination, 5, { stream });
    await transport.publish(batch, never);
    await arrived(deliveries, 1);
    standIn.loseLocks(subscriptionOf(destination));
    hold.open();
    const ids = batch.map(({ messageId }) => messageId);
    await waitFor(() => new Set(idsOf(deliveries)).size === ids.length, { message: 'all messages' });
    if (ordered) expect(firstOfEach(idsOf(deliveries))).toEqual(ids);
    await waitFor(() => standIn.namespace.findQueue(subscriptionOf(destination))?.readyCount === 0, {
      message: 'nothing to be left at the broker',
    });
    expect(deadLettersOf(destination)).toBe(0);
  });

  test('are kept over rejections, so that none of the deliveries the broker counts is spent', async () => {
    const destination = `rejected-${ordered}`;
    await standIn.createTopic(destination);
    await standIn.createSubscription(destination, 'shipping', { requiresSession: ordered, maxDeliveryCount: 2 });
    const { transport } = await connected(standIn);
    let calls = 0;
    const { deliveries } = await subscribed(transport, destination, { ordered }, async () => {
      calls += 1;
      if (calls < 5) throw new Error('the database is away');
    });
    const message = messageTo(destination, { stream });
    await transport.publish([message], never);
    await arrived(deliveries, 5);
    expect(idsOf(deliveries)).toEqual(Array.from({ length: 5 }, () => message.messageId));
    expect(deliveries.map(({ redelivered }) => redelivered)).toEqual([false, true, true, true, true]);
    expect(deadLettersOf(destination)).toBe(0);
  });
});

test('more sessions than are held at a time all get their turn, beside one that never ends', async () => {
  const destination = 'crowd';
  const { transport } = await connected(standIn, { maxConcurrentSessions: 2 });
  const endless = newStream();
  const { deliveries } = await subscribed(transport, destination, { prefetch: 20 });
  let flowing = true;
  const flow = (async () => {
    while (flowing) await transport.publish(messagesTo(destination, 5, { stream: endless }), never);
  })();
  await arrived(deliveries, 5);
  const others = Array.from({ length: 10 }, () => messagesTo(destination, 3, { stream: newStream() }));
  await transport.publish(others.flat(), never);
  const ids = new Set(others.flat().map(({ messageId }) => messageId));
  await waitFor(() => deliveries.filter((delivery) => ids.has(idOf(delivery) ?? '')).length >= ids.size, {
    message: 'the messages of all other streams',
    timeoutMs: 40_000,
  });
  flowing = false;
  await flow;
  for (const stream of others) {
    const own = new Set(stream.map(({ messageId }) => messageId));
    expect(firstOfEach(idsOf(deliveries).filter((id) => own.has(id ?? '')))).toEqual([...own]);
  }
});

test.each([true, false])('a receiver that has gone deaf is replaced (ordered: %s)', async (ordered) => {
  const destination = `deaf-${ordered}`;
  const { transport, log } = await connected(standIn, { silenceMs: 300 });
  const { deliveries } = await subscribed(transport, destination, { ordered });
  const entity = subscriptionOf(destination);
  const on = ordered ? 'attach-receiver' : 'deliver';
  const deafness = standIn.faults.inject({ on, entity, effect: { kind: 'silence' } });
  if (ordered) {
    // Those that were waiting already would be granted the session.
    standIn.cutConnections();
    await waitFor(() => deafness.struck > 0, { message: 'an accept that is not answered' });
  }
  await waitFor(() => transport.ready(), { message: 'the connection' });
  const message = messageTo(destination, { stream: newStream() });
  await waitFor(async () => (await transport.publish([message], never))[0]?.kind === 'confirmed', {
    message: 'the message to be published',
  });
  await waitFor(() => log.some((line) => line.includes('messages are waiting and none arrives')), {
    message: 'the deafness to be noticed',
  });
  deafness.clear();
  await arrived(deliveries, 1);
  expect(idsOf(deliveries)).toContain(message.messageId);
});

describe('subscriptions that others have made', () => {
  test('without rules: what is not asked for is completed, and what names no type is handed over', async () => {
    const destination = 'unruled';
    await standIn.createTopic(destination);
    await standIn.createSubscription(destination, 'shipping', { requiresSession: true });
    const { transport } = await connected(standIn);
    const { deliveries } = await subscribed(transport, destination);
    const stream = newStream();
    const [wanted, other, last] = [
      messageTo(destination, { stream }),
      messageTo(destination, { stream, type: 'not.wanted' }),
      messageTo(destination, { stream }),
    ];
    await transport.publish([wanted, other, last], never);
    await arrived(deliveries, 2);
    expect(idsOf(deliveries)).toEqual([wanted.messageId, last.messageId]);
    await waitFor(() => standIn.namespace.findQueue(subscriptionOf(destination))?.locks.size === 0, {
      message: 'the message that nobody wants to be completed',
    });
  });

  test('without sessions: ordered receiving says what is wrong and goes on when that is mended', async () => {
    const destination = 'unsessioned';
    await standIn.createTopic(destination);
    await standIn.createSubscription(destination, 'shipping');
    const { transport, log } = await connected(standIn);
    const { deliveries } = await subscribed(transport, destination);
    await waitFor(() => log.some((line) => line.includes('needs a subscription or queue with RequiresSession')), {
      message: 'the reason to be logged',
    });
    await standIn.deleteEntity(subscriptionOf(destination));
    const stream = newStream();
    await waitFor(
      async () => {
        await transport.publish([messageTo(destination, { stream })], never);
        return deliveries.length > 0;
      },
      { message: 'a message', intervalMs: 100 },
    );
    expect(log.at(-1)).toContain('needs a subscription or queue with RequiresSession');
  });

  test('with sessions: unordered receiving accepts them', async () => {
    const destination = 'oversessioned';
    await standIn.createTopic(destination);
    await standIn.createSubscription(destination, 'shipping', { requiresSession: true });
    const { transport } = await connected(standIn);
    const { deliveries } = await subscribed(transport, destination, { ordered: false });
    const batch = messagesTo(destination, 10);
    await transport.publish(batch, never);
    await arrived(deliveries, 10);
    expect(new Set(idsOf(deliveries))).toEqual(new Set(batch.map(({ messageId }) => messageId)));
  });
});

test('a queue is shared by instances of its one service, each session by one at a time', async () => {
  const [first, second] = [
    await connected(standIn, { entity: 'queue' }),
    await connected(standIn, { entity: 'queue' }),
  ];
  const together: Delivery[] = [];
  const take = async (batch: readonly Delivery[]): Promise<void> => void together.push(...batch);
  await subscribed(first.transport, 'queue', {}, take);
  await subscribed(second.transport, 'queue', {}, take);
  const streams = Array.from({ length: 20 }, () => messagesTo('queue', 5, { stream: newStream(), type: defaultType }));
  await first.transport.publish(streams.flat(), never);
  await arrived(together, 100);
  for (const stream of streams) {
    const own = stream.map(({ messageId }) => messageId);
    expect(idsOf(together).filter((id) => own.includes(id ?? ''))).toEqual(own);
  }
});
