import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { messageTo, messagesTo, newStream } from '../conformance/messages.js';
import { conditions } from '../fixtures/servicebus/stand-in/conditions.js';
import { ServicebusStandIn } from '../fixtures/servicebus/stand-in/stand-in.js';
import { never, outcomeText } from '../fixtures/watched-transport.js';
import { connected } from './connected.js';

let standIn: ServicebusStandIn;

beforeAll(async () => {
  standIn = await ServicebusStandIn.start();
});
afterEach(() => standIn.faults.clear());
afterAll(() => standIn?.stop());

const throttled = 'failed Throttled, retry';

test.each(['refuse', 'detach'] as const)(
  'a throttled namespace (%s) gets nothing for as long as it asks, and that is told as throttled',
  async (kind) => {
    const [one, other] = [`busy-${kind}`, `other-${kind}`];
    const { transport, readiness, isReady } = await connected(standIn);
    for (const outcome of await transport.publish([messageTo(one), messageTo(other)], never)) {
      expect(outcomeText(outcome)).toBe('confirmed');
    }
    standIn.faults.inject({ on: 'send', entity: one, times: 1, effect: { kind, error: conditions.serverBusy(1) } });
    const before = performance.now();
    const publishing = transport.publish([messageTo(one)], never).then((outcomes) => {
      // So that the message is recorded as throttled, and not as caught by an outage.
      expect(transport.ready()).toBe(true);
      return outcomes;
    });
    const [outcome] = await publishing;
    expect(outcomeText(outcome)).toBe(throttled);
    expect(outcome).toMatchObject({
      retryAfterMs: 1000,
      error: { message: expect.stringContaining('throttled') as string },
    });
    const seen = standIn.inspect(other).messages().length;
    expect(await transport.publish([messageTo(other)], never)).toEqual([{ kind: 'notAttempted' }]);
    await isReady(false);
    expect(readiness.at(-1)?.[1]).toMatch(/throttled/);
    await isReady();
    expect(performance.now() - before).toBeGreaterThanOrEqual(990);
    expect(standIn.inspect(other).messages().length).toBe(seen);
    const later = await transport.publish([messageTo(one), messageTo(other)], never);
    expect(later.map(outcomeText)).toEqual(['confirmed', 'confirmed']);
  },
);

test('what waits behind a throttled send is given back', async () => {
  const { transport } = await connected(standIn, { maxConcurrentSends: 1 });
  const [a, b] = [newStream(), newStream()];
  await transport.publish([messageTo('queueing')], never);
  standIn.faults.inject({ on: 'send', effect: { kind: 'refuse', error: conditions.serverBusy(1) } });
  const batch = [...messagesTo('queueing', 2, { stream: a }), ...messagesTo('queueing', 2, { stream: b })];
  const outcomes = await transport.publish(batch, never);
  expect(outcomes.map(outcomeText)).toEqual([throttled, 'notAttempted', 'notAttempted', 'notAttempted']);
});

test('a pause of its own where the broker does not say how long', async () => {
  const { transport, isReady } = await connected(standIn, { throttlePauseMs: 700 });
  await transport.publish([messageTo('unsaid')], never);
  const error = {
    condition: 'com.microsoft:server-busy',
    description: 'The server was unable to process the request.',
  };
  standIn.faults.inject({ on: 'send', times: 1, effect: { kind: 'refuse', error } });
  const [outcome] = await transport.publish([messageTo('unsaid')], never);
  expect(outcome).toMatchObject({ kind: 'failed', retryAfterMs: 700 });
  await isReady(false);
  await isReady();
});

test('a topic that is full stops nobody else', async () => {
  const { transport } = await connected(standIn);
  await transport.publish([messageTo('full'), messageTo('empty')], never);
  standIn.faults.inject({ on: 'send', entity: 'full', effect: { kind: 'refuse', error: conditions.quotaExceeded() } });
  const outcomes = await transport.publish([messageTo('full'), messageTo('empty')], never);
  expect(outcomes.map(outcomeText)).toEqual([throttled, 'confirmed']);
  expect(transport.ready()).toBe(true);
});
