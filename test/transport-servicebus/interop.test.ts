import { ServiceBusClient } from '@azure/service-bus';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { messageTo, messagesTo, newStream } from '../conformance/messages.js';
import { waitFor } from '../fixtures/wait-for.js';
import { ServicebusStandIn } from '../fixtures/servicebus/stand-in/stand-in.js';
import { ServicebusWitness } from '../fixtures/servicebus/servicebus-witness.js';
import { arrived, never } from '../fixtures/watched-transport.js';
import { connected, subscribed } from './connected.js';

let standIn: ServicebusStandIn;

beforeAll(async () => {
  standIn = await ServicebusStandIn.start();
});
afterAll(() => standIn?.stop());

/** A program that knows nothing of Whizbang. */
function plainClient(): ServiceBusClient {
  const client = new ServiceBusClient(standIn.connectionString);
  onTestFinished(() => client.close());
  return client;
}

test('a plain program reads what we send: a CloudEvent in binary mode', async () => {
  await standIn.createTopic('outward');
  await standIn.createSubscription('outward', 'reader', { requiresSession: true });
  const { transport } = await connected(standIn);
  const message = messageTo('outward', {
    stream: newStream(),
    attributes: { partitionkey: 'order-7' },
    headers: { tenant: 'eu' },
    body: Buffer.from('{"total":12.5}'),
  });
  await transport.publish([message], never);
  const receiver = await plainClient().acceptSession('outward', 'reader', 'order-7');
  const [read] = await receiver.receiveMessages(1);
  expect(read).toMatchObject({
    messageId: message.messageId,
    subject: message.messageType,
    sessionId: 'order-7',
    contentType: 'application/json',
    body: { total: 12.5 },
    applicationProperties: {
      cloudEvents_specversion: '1.0',
      cloudEvents_id: message.messageId,
      cloudEvents_type: message.messageType,
      cloudEvents_source: '/conformance',
      cloudEvents_partitionkey: 'order-7',
      tenant: 'eu',
    },
  });
});

test('we read what a plain program sends: with CloudEvents attributes, or with the properties of the broker', async () => {
  const { transport } = await connected(standIn);
  const bindings = [{ destination: 'inward', messageTypes: ['orders.placed'] }];
  const { deliveries } = await subscribed(transport, 'inward', { bindings });
  const sender = plainClient().createSender('inward');
  await sender.sendMessages([
    // As the binding has it: no subject, and the other separator.
    {
      body: { total: 1 },
      sessionId: 'order-7',
      contentType: 'application/json',
      applicationProperties: {
        'cloudEvents:specversion': '1.0',
        'cloudEvents:id': 'event-1',
        'cloudEvents:type': 'orders.placed',
        'cloudEvents:source': '/shop',
        tenant: 7,
      },
    },
    { body: { total: 2 }, sessionId: 'order-7', messageId: 'event-2', subject: 'orders.placed' },
    { body: { total: 3 }, sessionId: 'order-7', messageId: 'event-3', subject: 'orders.cancelled' },
    { body: 'no type at all', sessionId: 'order-7', messageId: 'event-4' },
  ]);
  await arrived(deliveries, 3);
  expect(
    deliveries.map(({ attributes, headers, body }) => [attributes['id'], attributes['type'], headers, body.toString()]),
  ).toEqual([
    ['event-1', 'orders.placed', { tenant: '7' }, '{"total":1}'],
    ['event-2', 'orders.placed', {}, '{"total":2}'],
    // For core to keep among its dead letters.
    ['event-4', undefined, {}, '"no type at all"'],
  ]);
  expect(deliveries[0]?.attributes).toMatchObject({ source: '/shop', datacontenttype: 'application/json' });
});

test('a witness sees what a topic takes, in its order', async () => {
  await standIn.createTopic('watched');
  await standIn.createSubscription('watched', 'witness');
  const { transport } = await connected(standIn);
  await using witness = await ServicebusWitness.create(standIn.connectionString, 'watched', 'witness');
  const batch = messagesTo('watched', 20, { stream: newStream() });
  await transport.publish(batch, never);
  await waitFor(() => witness.seen.length === batch.length, { message: 'all to be seen' });
  expect(witness.seen).toMatchObject(
    batch.map(({ messageId, messageType, body }) => ({ messageId, type: messageType, body: body.toString() })),
  );
});
