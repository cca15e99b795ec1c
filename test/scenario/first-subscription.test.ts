import type { Transport } from '@whizbang/core/transport';
import { createInProcessTransport } from '@whizbang/core/testing';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { OrderChanged } from './orders.js';
import { KeptLog, migratedDatabase, testService } from './test-service.js';

/** In-process, except that the service hears of its subscription when the test says so, as from a broker that is slow at it. */
function slowToSubscribe(name: string, established: Promise<void>): { transport: Transport; published: () => number } {
  const inner = createInProcessTransport(`memory:${name}`);
  let published = 0;
  const transport: Transport = {
    contractVersion: inner.contractVersion,
    name: inner.name,
    capabilities: inner.capabilities,
    connect: (context) => inner.connect(context),
    ready: () => inner.ready(),
    publish: (batch, signal) => {
      published += batch.length;
      return inner.publish(batch, signal);
    },
    subscribe: async (request, handler) => {
      const subscription = await inner.subscribe(request, handler);
      return { established, close: () => subscription.close() };
    },
    close: () => inner.close(),
  };
  return { transport, published: () => published };
}

async function serviceOn(transport: Transport, log = new KeptLog()) {
  const { url } = await migratedDatabase();
  const numbers: number[] = [];
  const whizbang = await testService({ database: url, broker: transport, logger: log });
  whizbang.handle(OrderChanged, ({ number }) => void numbers.push(number));
  await whizbang.publishNow(OrderChanged, { order: 'a', number: 1 });
  return { whizbang, numbers };
}

test('the first message waits until the service receives, and no longer', async () => {
  let establish: () => void = () => undefined;
  const established = new Promise<void>((resolve) => (establish = resolve));
  const { transport, published } = slowToSubscribe('slow-to-subscribe', established);
  const { whizbang, numbers } = await serviceOn(transport);
  // Returns after three seconds of waiting for the subscription.
  await whizbang.start();
  expect(whizbang.brokerReady).toBe(true);
  expect(published()).toBe(0);
  const at = performance.now();
  establish();
  await waitFor(() => numbers.length === 1, { message: 'the message' });
  expect(performance.now() - at).toBeLessThan(5_000);
});

test('a service whose subscription is never made publishes in the end, and says so', async () => {
  const log = new KeptLog();
  const { transport, published } = slowToSubscribe('never-subscribed', new Promise(() => undefined));
  const { whizbang } = await serviceOn(transport, log);
  await whizbang.start();
  expect(published()).toBe(0);
  await waitFor(() => published() === 1, { message: 'the message to be published', timeoutMs: 30_000 });
  expect(log.about(/does not receive yet/)).toHaveLength(1);
});

test('stop() does not wait for a subscription that is never made', async () => {
  const { transport, published } = slowToSubscribe('stopped-before', new Promise(() => undefined));
  const { whizbang } = await serviceOn(transport);
  await whizbang.start();
  const at = performance.now();
  expect(await whizbang.stop()).toEqual({ unfinished: 0 });
  expect(performance.now() - at).toBeLessThan(4_000);
  expect(published()).toBe(0);
});
