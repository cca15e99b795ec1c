import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { defaultType, messageTo, newStream } from '../conformance/messages.js';
import { waitFor } from '../fixtures/wait-for.js';
import { emulatorAdministration } from '../fixtures/servicebus/administered-entities.js';
import { ServicebusStandIn } from '../fixtures/servicebus/stand-in/stand-in.js';
import { arrived, never, outcomeText } from '../fixtures/watched-transport.js';
import { connected, subscribed } from './connected.js';

let standIn: ServicebusStandIn;

beforeAll(async () => {
  standIn = await ServicebusStandIn.start();
});
afterEach(() => standIn.faults.clear());
afterAll(() => standIn?.stop());

const administration = () => emulatorAdministration(standIn.connectionString, standIn.managementEndpoint);
const forbidden = { condition: 'amqp:unauthorized-access', description: 'Manage claim is required.' };

async function ruleNames(topic: string, subscription: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of administration().listRules(topic, subscription)) names.push(name);
  return names.toSorted();
}

test('a subscription is made for sessions, to hold on to its messages, and for the types that are wanted', async () => {
  const { transport } = await connected(standIn);
  const long = `long.type.${'x'.repeat(60)}`;
  await subscribed(transport, 'made', { bindings: [{ destination: 'made', messageTypes: [defaultType, long] }] });
  expect(await administration().getSubscription('made', 'shipping')).toMatchObject({
    requiresSession: true,
    maxDeliveryCount: 2000,
  });
  expect(await ruleNames('made', 'shipping')).toEqual([
    defaultType,
    expect.stringMatching(/^type-[0-9a-f]{32}$/),
    'whizbang-without-subject',
  ]);
  const unordered = { service: 'billing', ordered: false };
  await subscribed(transport, 'made', unordered);
  expect(await administration().getSubscription('made', 'billing')).toMatchObject({ requiresSession: false });
});

test('another instance adds what it wants, and takes nothing away', async () => {
  const [first, second] = [await connected(standIn), await connected(standIn)];
  const wanting = (...messageTypes: readonly string[]) => ({ bindings: [{ destination: 'added', messageTypes }] });
  const { deliveries } = await subscribed(first.transport, 'added', wanting('a', 'b'));
  await subscribed(second.transport, 'added', wanting('b', 'c'), () => Promise.reject(new Error('not mine')));
  expect(await ruleNames('added', 'shipping')).toEqual(['a', 'b', 'c', 'whizbang-without-subject']);
  await second.transport.close();
  await first.transport.publish([messageTo('added', { type: 'a', stream: newStream() })], never);
  await arrived(deliveries, 1);
});

test('ten instances that start at once make one subscription', async () => {
  const all = await Promise.all(Array.from({ length: 10 }, () => connected(standIn)));
  await Promise.all(all.map(({ transport }) => subscribed(transport, 'raced')));
  expect(await ruleNames('raced', 'shipping')).toEqual([defaultType, 'whizbang-without-subject']);
  expect(all.flatMap(({ log }) => log)).toEqual([]);
});

test('without the right to manage, what is there is used, which is said once; what is missing is said', async () => {
  standIn.faults.inject({ on: 'administer', effect: { kind: 'refuse', error: forbidden } });
  await standIn.createTopic('there');
  await standIn.createSubscription('there', 'shipping', { requiresSession: true });
  const { transport, log } = await connected(standIn);
  const { deliveries } = await subscribed(transport, 'there');
  const [there, missing] = await transport.publish(
    [messageTo('there', { stream: newStream() }), messageTo('not-there')],
    never,
  );
  expect([there, missing].map(outcomeText)).toEqual(['confirmed', 'failed TransportNotReady, retry']);
  expect(missing).toMatchObject({ error: { message: expect.stringContaining('cannot be created') as string } });
  await arrived(deliveries, 1);
  expect(log.filter((line) => line.includes('cannot be managed with this connection string'))).toHaveLength(1);
});

test('with the administration out of reach as well', async () => {
  await standIn.createTopic('near');
  await standIn.createSubscription('near', 'shipping', { requiresSession: true });
  const { transport, log } = await connected(standIn, { administrationEndpoint: 'http://127.0.0.1:9' });
  const { deliveries } = await subscribed(transport, 'near');
  await transport.publish([messageTo('near', { stream: newStream() })], never);
  await arrived(deliveries, 1);
  expect(log).toHaveLength(1);
});

test('a subscription that is missing is waited for', async () => {
  await standIn.createTopic('late');
  const { transport, log } = await connected(standIn, { declare: false });
  const subscribing = subscribed(transport, 'late');
  await waitFor(() => log.some((line) => line.includes('it is missing, and declare is false')), {
    message: 'it to be said',
  });
  await standIn.createSubscription('late', 'shipping', { requiresSession: true });
  const { deliveries } = await subscribing;
  const message = messageTo('late', { stream: newStream() });
  await transport.publish([message], never);
  await arrived(deliveries, 1);
  expect(deliveries[0]?.attributes['id']).toBe(message.messageId);
});

test('a topic that is deleted is made again', async () => {
  const { transport } = await connected(standIn);
  await transport.publish([messageTo('gone')], never);
  await standIn.deleteEntity('gone');
  await waitFor(async () => outcomeText((await transport.publish([messageTo('gone')], never))[0]) === 'confirmed', {
    message: 'a message to be confirmed again',
    intervalMs: 200,
  });
  expect(await administration().topicExists('gone')).toBe(true);
});
