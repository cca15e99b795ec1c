import { randomUUID } from 'node:crypto';
import type { OutgoingMessage } from '@whizbang/core/transport';
import { expect, test } from 'vitest';
import { defaultType, messageTo, messagesTo } from '../conformance/messages.js';
import { testBroker } from '../fixtures/test-services.js';
import { never, outcomeText } from '../fixtures/watched-transport.js';
import { connected, drain, rawChannel } from './connected.js';

async function destinationWithQueue(
  url: string,
  name: string,
  queueArguments: Record<string, unknown> = {},
): Promise<Awaited<ReturnType<typeof rawChannel>>> {
  const channel = await rawChannel(url);
  await channel.assertExchange(name, 'topic', { durable: true });
  await channel.assertQueue(name, { durable: true, arguments: queueArguments });
  await channel.bindQueue(name, name, '#');
  return channel;
}

test('a full queue refuses some of a batch: each message gets its own outcome, and the queue holds what was confirmed', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}full`;
  const channel = await destinationWithQueue(url, destination, { 'x-max-length': 10, 'x-overflow': 'reject-publish' });
  const { transport } = await connected(url);
  const batch = messagesTo(destination, 100);
  const outcomes = (await transport.publish(batch, never)).map((outcome) => outcomeText(outcome));
  expect([...new Set(outcomes)].toSorted()).toEqual(['confirmed', 'failed Throttled, retry']);
  const confirmed = batch.filter((_, index) => outcomes[index] === 'confirmed').map(({ messageId }) => messageId);
  expect(await drain(channel, destination)).toEqual(confirmed);
});

test('a refused message holds back the rest of its stream only', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}full`;
  await destinationWithQueue(url, destination, { 'x-max-length': 1, 'x-overflow': 'reject-publish' });
  const elsewhere = `${prefix}empty`;
  await destinationWithQueue(url, elsewhere);
  const { transport } = await connected(url);
  const stream = randomUUID();
  const batch = [
    ...messagesTo(destination, 4, { stream }),
    ...messagesTo(elsewhere, 2, { stream: randomUUID() }),
    messageTo(elsewhere, { stream }),
  ];
  expect((await transport.publish(batch, never)).map((outcome) => outcomeText(outcome))).toEqual([
    'confirmed',
    'failed Throttled, retry',
    'notAttempted',
    'notAttempted',
    'confirmed',
    'confirmed',
    'notAttempted',
  ]);
});

test('messages of one stream in two calls at once: in turn, and the second call stops with the first', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}full`;
  const channel = await destinationWithQueue(url, destination, { 'x-max-length': 3, 'x-overflow': 'reject-publish' });
  const { transport } = await connected(url);
  const stream = randomUUID();
  const batch = messagesTo(destination, 6, { stream });
  const [first, second] = await Promise.all([
    transport.publish(batch.slice(0, 4), never),
    transport.publish(batch.slice(4), never),
  ]);
  expect([...first, ...second].map(({ kind }) => kind)).toEqual([
    'confirmed',
    'confirmed',
    'confirmed',
    'failed',
    'notAttempted',
    'notAttempted',
  ]);
  expect(await drain(channel, destination)).toEqual(batch.slice(0, 3).map(({ messageId }) => messageId));
});

test('returned messages are told apart among confirmed ones', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}some`;
  const channel = await destinationWithQueue(url, destination);
  await channel.unbindQueue(destination, destination, '#');
  await channel.bindQueue(destination, destination, 'wanted');
  const { transport } = await connected(url);
  const batch = Array.from({ length: 40 }, (_, n) =>
    messageTo(destination, { type: n % 3 === 0 ? 'other' : 'wanted' }),
  );
  const outcomes = await transport.publish(batch, never);
  expect(outcomes.map((outcome) => outcomeText(outcome))).toEqual(
    batch.map(({ messageType }) => (messageType === 'wanted' ? 'confirmed' : 'failed TransportNotReady, retry')),
  );
  expect(outcomes[0]).toMatchObject({ error: { message: expect.stringContaining('no queue is bound') as string } });
});

test('messages that break a limit fail alone and untried; their neighbours do not notice', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}limits`;
  const channel = await destinationWithQueue(url, destination);
  const { transport, log } = await connected(url, { maxMessageBytes: 1000 });
  const bad: [OutgoingMessage, string][] = [
    [messageTo(destination, { body: Buffer.alloc(1001) }), 'failed MessageBodyTooLarge'],
    [messageTo(destination, { headers: { h: 'x'.repeat(70_000) } }), 'failed MessageBodyTooLarge'],
    [messageTo(destination, { headers: { ['n'.repeat(256)]: 'x' } }), 'failed ValidationError'],
    [messageTo(destination, { headers: { h: '\uDC00' } }), 'failed ValidationError'],
    [messageTo(destination, { type: 't'.repeat(256) }), 'failed ValidationError'],
    [messageTo('d'.repeat(256)), 'failed ValidationError'],
    [messageTo(''), 'failed ValidationError'],
  ];
  const batch = bad.flatMap(([message]) => [messageTo(destination), message]);
  const outcomes = await transport.publish(batch, never);
  expect(outcomes.map((outcome) => outcomeText(outcome))).toEqual(
    bad.flatMap(([, expected]) => ['confirmed', expected]),
  );
  expect(await drain(channel, destination)).toHaveLength(bad.length);
  // A destination without a possible name is a matter of its own.
  expect(log.filter((line) => line.includes(destination))).toEqual([]);
});

test('the largest headers that pass the check pass the broker', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}headers`;
  await destinationWithQueue(url, destination);
  const { transport } = await connected(url);
  const outcomes = await transport.publish(
    Array.from({ length: 600 }, (_, n) => messageTo(destination, { headers: { h: 'x'.repeat(64_900 + n) } })),
    never,
  );
  const kinds = outcomes.map((outcome) => outcomeText(outcome));
  expect(new Set(kinds)).toEqual(new Set(['confirmed', 'failed MessageBodyTooLarge']));
  expect(kinds.lastIndexOf('confirmed')).toBeLessThan(kinds.indexOf('failed MessageBodyTooLarge'));
});

test('a deleted exchange is declared again, and the messages go on', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}deleted`;
  const channel = await destinationWithQueue(url, destination);
  const { transport } = await connected(url, { mandatory: false });
  expect(await transport.publish([messageTo(destination)], never)).toEqual([{ kind: 'confirmed' }]);
  await channel.deleteExchange(destination);
  const outcomes = await transport.publish(messagesTo(destination, 50), never);
  expect(new Set(outcomes.map((outcome) => outcomeText(outcome)))).toEqual(new Set(['confirmed']));
  await channel.checkExchange(destination);
});

test('an exchange of another type is a clear refusal, and hurts nobody else', async () => {
  const { url, prefix } = await testBroker();
  const channel = await rawChannel(url);
  await channel.assertExchange(`${prefix}fanout`, 'fanout', { durable: true });
  const good = `${prefix}good`;
  await destinationWithQueue(url, good);
  const { transport } = await connected(url);
  const outcomes = await transport.publish([messageTo(`${prefix}fanout`), messageTo(good)], never);
  expect(outcomes.map((outcome) => outcomeText(outcome))).toEqual(['failed ValidationError', 'confirmed']);
  expect(outcomes[0]).toMatchObject({
    error: { message: expect.stringMatching(/exchange ".*fanout" cannot be created.*declare=false/) as string },
  });
});

test('with declare=false a missing exchange is named', async () => {
  const { url, prefix } = await testBroker();
  const { transport } = await connected(url, { declare: false });
  const [outcome] = await transport.publish([messageTo(`${prefix}missing`)], never);
  expect(outcome).toMatchObject({
    kind: 'failed',
    retryable: true,
    error: {
      message: expect.stringMatching(/exchange ".*missing" is missing, and the option declare is false/) as string,
    },
  });
});

test('what has been aborted is not sent, and what is sent is awaited', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}abort`;
  const channel = await destinationWithQueue(url, destination);
  const { transport } = await connected(url, { publishWindow: 5 });
  const abort = new AbortController();
  const batch = messagesTo(destination, 500);
  const publishing = transport.publish(batch, abort.signal);
  const other = transport.publish(messagesTo(destination, 20), never);
  setImmediate(() => abort.abort());
  const outcomes = (await publishing).map((outcome) => outcomeText(outcome));
  expect((await other).every(({ kind }) => kind === 'confirmed')).toBe(true);
  const confirmed = batch.filter((_, index) => outcomes[index] === 'confirmed').map(({ messageId }) => messageId);
  expect(outcomes).toContain('notAttempted');
  expect(outcomes).not.toContain('failed');
  expect((await drain(channel, destination)).slice(0, confirmed.length)).toEqual(confirmed);
});

test('bodies of many frames through a small window, with backpressure', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}large`;
  const channel = await destinationWithQueue(url, destination);
  const { transport } = await connected(url);
  const batch = Array.from({ length: 60 }, (_, n) => messageTo(destination, { body: Buffer.alloc(3_000_000, n) }));
  const outcomes = await transport.publish(batch, never);
  expect(new Set(outcomes.map((outcome) => outcomeText(outcome)))).toEqual(new Set(['confirmed']));
  expect(await drain(channel, destination)).toEqual(batch.map(({ messageId }) => messageId));
});

test('the same message id twice in a batch', async () => {
  const { url, prefix } = await testBroker();
  const destination = `${prefix}twice`;
  const channel = await destinationWithQueue(url, destination);
  await channel.unbindQueue(destination, destination, '#');
  await channel.bindQueue(destination, destination, defaultType);
  const { transport } = await connected(url);
  const message = messageTo(destination);
  const outcomes = await transport.publish([message, { ...message, messageType: 'unwanted' }, message], never);
  expect(outcomes.map((outcome) => outcomeText(outcome))).toEqual([
    'confirmed',
    'failed TransportNotReady, retry',
    'confirmed',
  ]);
});
