import { randomUUID } from 'node:crypto';

import type { MessageContext } from '@whizbang/core';
import { describe, expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { brokers } from './brokers/index.js';
import { OrderChanged } from './orders.js';
import { atEnd, migratedDatabase, testService } from './test-service.js';

describe.each(brokers)('$name, programs without Whizbang', (kind) => {
  test('what one sends is handled, once, with what it says of itself', async () => {
    const broker = await kind.shared();
    const { url } = await migratedDatabase();
    const whizbang = await testService({ database: url, broker: broker.url });
    const handled: { number: number; context: MessageContext }[] = [];
    whizbang.handle(OrderChanged, ({ number }, context) => void handled.push({ number, context }));
    await whizbang.start();

    const event = (number: number) => ({
      attributes: {
        specversion: '1.0',
        id: randomUUID(),
        type: 'orders.order-changed',
        source: '/legacy/orders',
        time: '2026-01-02T03:04:05Z',
        partitionkey: 'order-7',
      },
      headers: { tenant: 'x' },
      body: JSON.stringify({ order: 'order-7', number }),
    });
    const [first, second] = [event(1), event(2)];
    await broker.send('orders', first);
    await broker.send('orders', first);
    await broker.send('orders', second);

    await waitFor(() => handled.some(({ number }) => number === 2), { message: 'both events', timeoutMs: 30_000 });
    expect(handled.map(({ number }) => number)).toEqual([1, 2]);
    expect(handled[0]?.context).toMatchObject({
      messageId: first.attributes.id,
      streamKey: 'order-7',
      headers: { tenant: 'x' },
    });
  }, 90_000);

  test('what we publish is read by one, whole and in order', async () => {
    const broker = await kind.shared();
    const witness = await broker.witness('orders');
    atEnd(async () => witness[Symbol.asyncDispose]());
    const { url } = await migratedDatabase();
    const whizbang = await testService({ service: 'orders', database: url, broker: broker.url });
    await whizbang.start();
    const first = await whizbang.publishNow(
      OrderChanged,
      { order: 'order-7', number: 1 },
      { headers: { tenant: 'x' } },
    );
    await whizbang.publishNow(OrderChanged, { order: 'order-7', number: 2 });

    await waitFor(() => witness.seen.length === 2, { message: 'both messages', timeoutMs: 30_000 });
    expect(witness.seen.map(({ body }) => JSON.parse(body) as object)).toEqual([
      { order: 'order-7', number: 1 },
      { order: 'order-7', number: 2 },
    ]);
    const [seen] = witness.seen;
    expect(seen?.attributes).toMatchObject({
      specversion: '1.0',
      id: first.messageId,
      type: 'orders.order-changed',
      source: expect.stringMatching(/orders/) as string,
      time: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T.*Z$/) as string,
      partitionkey: 'order-7',
      datacontenttype: 'application/json',
    });
    expect(seen?.headers).toMatchObject({ tenant: 'x' });
  }, 90_000);
});
