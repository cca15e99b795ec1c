import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { messageTo, messagesTo, newStream } from '../conformance/messages.js';
import { waitFor } from '../fixtures/wait-for.js';
import { conditions } from '../fixtures/servicebus/stand-in/conditions.js';
import { ServicebusStandIn } from '../fixtures/servicebus/stand-in/stand-in.js';
import { never, outcomeText } from '../fixtures/watched-transport.js';
import { connected, connecting, subscribed } from './connected.js';

let standIn: ServicebusStandIn;

beforeAll(async () => {
  standIn = await ServicebusStandIn.start();
});
afterEach(() => standIn.faults.clear());
afterAll(() => standIn?.stop());

const seenAt = (destination: string): (string | undefined)[] =>
  standIn
    .inspect(destination)
    .messages()
    .map(({ messageId }) => messageId);

const refusal = (error: { condition: string; description: string }) => ({ kind: 'refuse', error }) as const;
const notAllowed = { condition: 'amqp:not-allowed', description: 'It is not possible.' };

describe('a batch that the broker refuses is sent again in smaller ones', () => {
  test('for its size: by halves, in order', async () => {
    const { transport } = await connected(standIn);
    await transport.publish([messageTo('halves')], never);
    const fault = standIn.faults.inject({
      on: 'send',
      times: 3,
      effect: refusal(conditions.messageSizeExceeded(300_000, 262_144)),
    });
    const batch = messagesTo('halves', 16, { stream: newStream() });
    const outcomes = await transport.publish(batch, never);
    expect(new Set(outcomes.map(outcomeText))).toEqual(new Set(['confirmed']));
    expect(fault.struck).toBe(3);
    expect(seenAt('halves').slice(1)).toEqual(batch.map(({ messageId }) => messageId));
  });

  test('for one of its messages: one by one, and only that one fails', async () => {
    const { transport } = await connected(standIn, { sharedSessions: 1 });
    await transport.publish([messageTo('culprit')], never);
    // The batch, and then the first message alone.
    standIn.faults.inject({ on: 'send', times: 2, effect: refusal(notAllowed) });
    const batch = messagesTo('culprit', 5);
    const outcomes = await transport.publish(batch, never);
    expect(outcomes.map(outcomeText)).toEqual([
      'failed ValidationError',
      'confirmed',
      'confirmed',
      'confirmed',
      'confirmed',
    ]);
    expect(seenAt('culprit').slice(1)).toEqual(batch.slice(1).map(({ messageId }) => messageId));
  });

  test('and when it is of one stream, the rest of that waits', async () => {
    const { transport } = await connected(standIn);
    await transport.publish([messageTo('stream-culprit')], never);
    standIn.faults.inject({ on: 'send', times: 2, effect: refusal(notAllowed) });
    const batch = messagesTo('stream-culprit', 3, { stream: newStream() });
    const outcomes = await transport.publish(batch, never);
    expect(outcomes.map(outcomeText)).toEqual(['failed ValidationError', 'notAttempted', 'notAttempted']);
    expect(seenAt('stream-culprit')).toHaveLength(1);
  });
});

test('a topic with partitions takes batches of one session only: everything arrives all the same, in order, once', async () => {
  await standIn.createTopic('partitioned', { partitioned: true, requiresDuplicateDetection: true });
  const { transport } = await connected(standIn);
  const streams = Array.from({ length: 5 }, () => newStream());
  const batch = Array.from({ length: 20 }, () => [
    ...streams.map((stream) => messageTo('partitioned', { stream })),
    messageTo('partitioned'),
  ]).flat();
  const confirmed = new Set<string>();
  // What waits behind a message that is not confirmed yet comes again, as the publisher does it.
  for (let turn = 0; turn < 5 && confirmed.size < batch.length; turn += 1) {
    const rest = batch.filter(({ messageId }) => !confirmed.has(messageId));
    const outcomes = await transport.publish(rest, never);
    expect(outcomes.filter(({ kind }) => kind === 'failed')).toEqual([]);
    for (const [index, { messageId }] of rest.entries()) {
      if (outcomes[index]?.kind === 'confirmed') confirmed.add(messageId);
    }
  }
  const seen = seenAt('partitioned');
  expect(new Set(seen)).toEqual(new Set(batch.map(({ messageId }) => messageId)));
  expect(seen).toHaveLength(batch.length);
  for (const stream of streams) {
    const ids = batch.filter(({ streamId }) => streamId === stream).map(({ messageId }) => messageId);
    expect(seen.filter((id) => ids.includes(String(id)))).toEqual(ids);
  }
});

test('the limit that the broker announces is kept, told, and one message above it fails alone', async () => {
  const { transport } = await connected(standIn);
  expect(transport.capabilities.maxMessageBytes).toBeNull();
  const stream = newStream();
  const bodies = [1000, 300_000, 200_000, 200_000, 10];
  const batch = bodies.map((bytes) => messageTo('limit', { body: Buffer.alloc(bytes) }));
  const expected = bodies.map((bytes) => (bytes === 300_000 ? 'failed MessageBodyTooLarge' : 'confirmed'));
  expect((await transport.publish(batch, never)).map(outcomeText)).toEqual(expected);
  expect(transport.capabilities.maxMessageBytes).toBe(262_144);
  const large = messagesTo('limit', 4, { stream, body: Buffer.alloc(200_000) });
  expect((await transport.publish(large, never)).map(outcomeText)).toEqual(large.map(() => 'confirmed'));
  expect(seenAt('limit')).toHaveLength(8);
});

test('large messages where the entity takes them, in batches of at most 1 MB', async () => {
  const { transport } = await connected(standIn, { maxMessageBytes: 3_000_000 });
  const bodies = [2_500_000, 400_000, 400_000, 400_000];
  const batch = bodies.map((bytes) => messageTo('large', { stream: 'large-stream', body: Buffer.alloc(bytes) }));
  expect((await transport.publish(batch, never)).map(outcomeText)).toEqual(batch.map(() => 'confirmed'));
  expect(seenAt('large')).toEqual(batch.map(({ messageId }) => messageId));
});

test('more messages of a stream than a batch may have', async () => {
  const { transport } = await connected(standIn);
  const batch = messagesTo('many', 5000, { stream: newStream(), body: Buffer.alloc(2) });
  const outcomes = await transport.publish(batch, never);
  expect(new Set(outcomes.map(outcomeText))).toEqual(new Set(['confirmed']));
  expect(seenAt('many')).toEqual(batch.map(({ messageId }) => messageId));
});

test('the session is the key of the stream; what has no stream travels in the shared sessions', async () => {
  const { transport } = await connected(standIn, { sharedSessions: 2 });
  const keyed = messageTo('sessions', { stream: newStream(), attributes: { partitionkey: 'order-7' } });
  await transport.publish([keyed, ...messagesTo('sessions', 6)], never);
  const sessions = standIn
    .inspect('sessions')
    .messages()
    .map(({ sessionId }) => sessionId);
  expect(new Set(sessions)).toEqual(new Set(['order-7', 'whizbang-shared-0', 'whizbang-shared-1']));
});

describe('a send that is not answered', () => {
  test('because the link is detached has failed at once, with an unknown outcome; the next one goes', async () => {
    const { transport } = await connected(standIn);
    await transport.publish([messageTo('detached')], never);
    const error = conditions.internalError();
    standIn.faults.inject({ on: 'send', times: 1, effect: { kind: 'detach', error, applied: true } });
    const before = performance.now();
    const [outcome] = await transport.publish([messageTo('detached')], never);
    expect(outcomeText(outcome)).toBe('failed TransportException, retry');
    expect(performance.now() - before).toBeLessThan(5000);
    expect(transport.ready()).toBe(true);
    expect((await transport.publish([messageTo('detached')], never)).map(outcomeText)).toEqual(['confirmed']);
    expect(seenAt('detached')).toHaveLength(3);
  });

  test('because the connection is cut has failed at once; it is made again', async () => {
    const { transport, readiness, isReady } = await connected(standIn);
    await transport.publish([messageTo('cut')], never);
    standIn.faults.inject({ on: 'send', times: 1, effect: { kind: 'cut', applied: true } });
    const before = performance.now();
    const [outcome] = await transport.publish([messageTo('cut')], never);
    expect(outcomeText(outcome)).toBe('failed TransportException, retry');
    expect(performance.now() - before).toBeLessThan(5000);
    await isReady();
    expect(readiness.map(([ready]) => ready)).toEqual([true, false, true]);
    expect((await transport.publish([messageTo('cut')], never)).map(outcomeText)).toEqual(['confirmed']);
  });

  test('for no reason has failed after sendTimeoutMs, and stops nobody else', async () => {
    const { transport } = await connected(standIn, { sendTimeoutMs: 1000 });
    await transport.publish([messageTo('silent'), messageTo('talkative')], never);
    standIn.faults.inject({ on: 'send', entity: 'silent', times: 1, effect: { kind: 'silence' } });
    const [silent, talkative] = await transport.publish([messageTo('silent'), messageTo('talkative')], never);
    expect([silent, talkative].map(outcomeText)).toEqual(['failed TransportException, retry', 'confirmed']);
    expect((await transport.publish([messageTo('silent')], never)).map(outcomeText)).toEqual(['confirmed']);
  });

  test('and cannot be, since the broker has stopped answering at all: not ready, with the cause', async () => {
    const { transport, readiness, isReady } = await connected(standIn, { sendTimeoutMs: 1000 });
    await transport.publish([messageTo('deaf')], never);
    standIn.faults.inject({ on: 'send', effect: { kind: 'silence' } });
    standIn.faults.inject({ on: 'token', effect: { kind: 'silence' } });
    const [outcome] = await transport.publish([messageTo('deaf')], never);
    expect(outcomeText(outcome)).toBe('failed TransportException, retry');
    await isReady(false);
    expect(readiness.at(-1)?.[1]).toMatch(/stopped answering/);
    standIn.faults.clear();
    await isReady();
  });
});

describe('refused as a whole', () => {
  test('a topic that this key may not send to, and no other', async () => {
    const { transport, log } = await connected(standIn);
    await standIn.createTopic('forbidden');
    standIn.faults.inject({
      on: 'attach-sender',
      entity: 'forbidden',
      effect: refusal(conditions.unauthorized('forbidden')),
    });
    for (let round = 0; round < 2; round += 1) {
      const batch = [messageTo('forbidden'), messageTo('allowed'), messageTo('forbidden')];
      expect((await transport.publish(batch, never)).map(outcomeText)).toEqual([
        'failed SecurityContextEstablishmentFailure',
        'confirmed',
        'failed SecurityContextEstablishmentFailure',
      ]);
    }
    expect(log.filter((line) => line.includes('"forbidden"'))).toHaveLength(1);
    expect(transport.ready()).toBe(true);
  });

  test('a topic that is disabled', async () => {
    const { transport } = await connected(standIn);
    await standIn.createTopic('disabled', { status: 'Disabled' });
    const [outcome] = await transport.publish([messageTo('disabled')], never);
    expect(outcomeText(outcome)).toBe('failed TransportNotReady, retry');
  });

  test('a topic that is missing, until somebody has made it', async () => {
    const { transport } = await connected(standIn, { declare: false });
    const [missing] = await transport.publish([messageTo('later')], never);
    expect(outcomeText(missing)).toBe('failed TransportNotReady, retry');
    expect(missing).toMatchObject({ error: { message: expect.stringContaining('declare is false') as string } });
    await standIn.createTopic('later');
    await waitFor(async () => outcomeText((await transport.publish([messageTo('later')], never))[0]) === 'confirmed', {
      message: 'the topic to be found',
      intervalMs: 200,
    });
  });

  test('a wrong key: never ready, said seldom and without the key; mended without a restart', async () => {
    const fault = standIn.faults.inject({ on: 'token', effect: refusal(conditions.invalidSignature()) });
    const { transport, log, readiness, isReady } = await connecting(standIn);
    await waitFor(() => log.some((line) => line.includes('(10 times so far)')), {
      message: 'the tenth attempt',
      timeoutMs: 30_000,
    });
    expect(log.every((line) => line.includes('the shared access key was refused'))).toBe(true);
    expect(log).toHaveLength(2);
    expect(log.join()).not.toContain(/SharedAccessKey=([^;]+)/.exec(standIn.connectionString)?.[1]);
    expect(readiness).toEqual([]);
    expect(await transport.publish([messageTo('any')], never)).toEqual([{ kind: 'notAttempted' }]);
    fault.clear();
    await isReady();
  });
});

test('with duplicate detection, a message that is sent twice arrives once', async () => {
  const { transport } = await connected(standIn, { duplicateDetection: true });
  const { deliveries } = await subscribed(transport, 'once');
  const stream = newStream();
  const batch = messagesTo('once', 3, { stream });
  for (let time = 0; time < 2; time += 1) {
    expect((await transport.publish(batch, never)).map(outcomeText)).toEqual(batch.map(() => 'confirmed'));
  }
  const last = messageTo('once', { stream });
  await transport.publish([last], never);
  await waitFor(() => deliveries.some(({ attributes }) => attributes['id'] === last.messageId), {
    message: 'the last message',
  });
  expect(deliveries.map(({ attributes }) => attributes['id'])).toEqual([...batch, last].map((each) => each.messageId));
});
