import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { silentLogger } from '../contract/logger.js';
import { MessageFailureReason } from '../contract/message-failure-reason.js';
import type { DeliveryHandler, OutgoingMessage, SubscriptionRequest, Transport } from '../contract/transport.js';
import { ConfigurationError } from '../errors/whizbang-error.js';
import { InProcessBroker } from './in-process-broker.js';
import { createInProcessTransport } from './in-process-transport.js';

const name = 'in-process-transport-test';
const { signal } = new AbortController();
const confirmed = { kind: 'confirmed' };
const notAttempted = { kind: 'notAttempted' };

function messageOf(body: string, destination = 'orders'): OutgoingMessage {
  const messageId = randomUUID();
  return {
    messageId,
    destination,
    messageType: 'order.placed',
    streamId: null,
    attributes: { id: messageId },
    headers: {},
    body: Buffer.from(body),
  };
}

function requestOf(parts: Partial<SubscriptionRequest> = {}): SubscriptionRequest {
  const bindings = [{ destination: 'orders', messageTypes: ['order.placed'] }];
  return { service: 'shipping', bindings, ordered: true, maxBatch: 10, prefetch: 10, ...parts };
}

async function connected(connectionString = `memory:${name}`): Promise<Transport> {
  const transport = createInProcessTransport(connectionString);
  await transport.connect({ logger: silentLogger, onReadyChange: () => undefined });
  return transport;
}

describe('the in-process transport', () => {
  let broker: InProcessBroker;
  let transport: Transport;

  beforeEach(async () => {
    broker = InProcessBroker.named(name);
    transport = await connected();
  });

  afterEach(async () => {
    await transport.close();
    InProcessBroker.remove(name);
  });

  test('of another name is another broker, of a removed name a new one', async () => {
    await (await transport.subscribe(requestOf(), async () => undefined)).close();
    const other = await connected(`memory:${name}-other`);
    expect(await other.publish([messageOf('1')], signal)).toMatchObject([{ kind: 'failed' }]);
    expect(await transport.publish([messageOf('1')], signal)).toEqual([confirmed]);
    expect(broker.depth('shipping')).toBe(1);
    InProcessBroker.remove(name);
    expect(InProcessBroker.named(name).depth('shipping')).toBe(0);
    await other.close();
    InProcessBroker.remove(`${name}-other`);
  });

  test('fails what the test orders to fail, and nothing else', async () => {
    const stop = broker.tap('orders', () => undefined);
    broker.tap('payments', () => undefined);
    const error = new Error('slow down');
    const throttled = { kind: 'failed', reason: MessageFailureReason.Throttled, retryable: true, error } as const;
    broker.failNext('orders', 2, { outcome: throttled });
    broker.failNext('orders');
    const batch = [messageOf('1'), messageOf('2', 'payments'), messageOf('3'), messageOf('4'), messageOf('5')];
    expect(await transport.publish(batch, signal)).toMatchObject([
      throttled,
      confirmed,
      throttled,
      { kind: 'failed', reason: MessageFailureReason.TransportException, retryable: true },
      confirmed,
    ]);
    stop();
  });

  test('may store a message and lose the confirmation', async () => {
    await (await transport.subscribe(requestOf(), async () => undefined)).close();
    broker.failNext('orders', 1, { stored: true });
    expect(await transport.publish([messageOf('1')], signal)).toMatchObject([{ kind: 'failed' }]);
    expect(broker.depth('shipping')).toBe(1);
  });

  test('holds publishes while blocked, until unblocked', async () => {
    broker.tap('orders', () => undefined);
    broker.block();
    const publishing = transport.publish([messageOf('1')], signal);
    const first = await Promise.race([publishing, new Promise((resolve) => setImmediate(resolve, 'held'))]);
    expect(first).toBe('held');
    broker.unblock();
    expect(await publishing).toEqual([confirmed]);
  });

  test('gives up a held publish when it is aborted, closed, or the broker goes', async () => {
    broker.tap('orders', () => undefined);
    broker.block();
    const abort = new AbortController();
    const aborted = transport.publish([messageOf('1')], abort.signal);
    abort.abort();
    expect(await aborted).toEqual([notAttempted]);
    const away = transport.publish([messageOf('1')], signal);
    broker.setAvailable(false);
    expect(await away).toEqual([notAttempted]);
    broker.setAvailable(true);
    const closed = transport.publish([messageOf('1')], signal);
    await transport.close();
    expect(await closed).toEqual([notAttempted]);
  });

  test('drops the unroutable when it is not mandatory', async () => {
    const lenient = await connected(`memory:${name}?mandatory=false`);
    expect(lenient.capabilities.reportsUnroutable).toBe(false);
    expect(await lenient.publish([messageOf('1')], signal)).toEqual([confirmed]);
    await lenient.close();
  });

  test('names everything wrong with its options', () => {
    const create = (): Transport =>
      createInProcessTransport('memory:?mandatory=perhaps&maxMessageBytes=0', { unknown: 1 });
    expect(create).toThrow(ConfigurationError);
    expect(create).toThrow(/mandatory.*maxMessageBytes.*unknown/s);
  });

  test('refuses an instance that disagrees about the order of a service', async () => {
    await transport.subscribe(requestOf(), async () => undefined);
    const disagreeing = transport.subscribe(requestOf({ ordered: false }), async () => undefined);
    await expect(disagreeing).rejects.toThrow(ConfigurationError);
  });

  test('pauses longer after every rejection, from 50 ms to 5 s, and shortly again after an acceptance', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const timeouts = vi.spyOn(globalThis, 'setTimeout');
      let calls = 0;
      const handler: DeliveryHandler = async () => {
        calls += 1;
        if (calls !== 10) throw new Error('rejected by the test');
      };
      const subscription = await transport.subscribe(requestOf({ maxBatch: 1 }), handler);
      await transport.publish([messageOf('1'), messageOf('2')], signal);
      const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
      while (calls < 11) {
        await turn();
        vi.advanceTimersByTime(5_000);
      }
      await turn();
      const pauses = timeouts.mock.calls.map(([, delay]) => delay);
      expect(pauses.slice(0, 10)).toEqual([50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 50]);
      await subscription.close();
    } finally {
      vi.useRealTimers();
    }
  });
});
