import {
  defineMessage,
  type HandledPayloadOf,
  type MessageContext,
  type PayloadOf,
  type Whizbang,
} from '@whizbang/core';
import { describe, expectTypeOf, test } from 'vitest';
import { z } from 'zod';

// Checked by the compiler: this file is part of the build of `test/`, and what it expects to be refused must be refused
// there. Nothing in it runs.
const OrderPlaced = defineMessage('orders.order-placed', {
  schema: z.object({
    orderId: z.string(),
    placedAt: z.iso.datetime().transform((text) => new Date(text)),
    currency: z.string().default('EUR'),
  }),
  destination: 'orders',
  stream: (order) => {
    expectTypeOf(order.placedAt).toEqualTypeOf<string>();
    return order.orderId;
  },
});
const Ping = defineMessage('ping', { schema: z.null(), destination: 'pings' });

interface Placed {
  orderId: string;
  placedAt: string;
  currency?: string | undefined;
}
interface Handled {
  orderId: string;
  placedAt: Date;
  currency: string;
}

declare const whizbang: Whizbang;
declare const tx: { query(text: string, values: unknown[]): Promise<{ rows: unknown[] }> };
declare const placed: Placed;
const neverRun = (work: () => unknown): void => void work;

describe('the payload', () => {
  test('is what goes into the schema for whoever publishes, and what comes out of it for whoever handles', () => {
    expectTypeOf<PayloadOf<typeof OrderPlaced>>().toEqualTypeOf<Placed>();
    expectTypeOf<HandledPayloadOf<typeof OrderPlaced>>().toEqualTypeOf<Handled>();
    expectTypeOf<PayloadOf<typeof Ping>>().toEqualTypeOf<null>();
  });

  test('is inferred by publish, publishMany and publishNow', () => {
    neverRun(async () => {
      const published = await whizbang.publish(tx, OrderPlaced, placed, { headers: { tenant: 'x' } });
      expectTypeOf(published).toEqualTypeOf<{ messageId: string }>();
      await whizbang.publishMany(tx, OrderPlaced, [placed]);
      await whizbang.publishNow(Ping, null);
      // @ts-expect-error -- a member is missing
      await whizbang.publish(tx, OrderPlaced, { orderId: '1' });
      // @ts-expect-error -- a Date is what comes out, a text goes in
      await whizbang.publish(tx, OrderPlaced, { orderId: '1', placedAt: new Date() });
      // @ts-expect-error -- no such member
      await whizbang.publish(tx, OrderPlaced, { ...placed, total: 1 });
      // @ts-expect-error -- one payload instead of a list
      await whizbang.publishMany(tx, OrderPlaced, placed);
      // @ts-expect-error -- one message id for many messages
      await whizbang.publishMany(tx, OrderPlaced, [placed], { messageId: '1' });
      // @ts-expect-error -- the transaction is required
      await whizbang.publish(OrderPlaced, placed);
      // @ts-expect-error -- not a transaction
      await whizbang.publish({}, OrderPlaced, placed);
    });
  });

  test('is inferred by handle and handleBatch', () => {
    neverRun(() => {
      whizbang
        .handle(OrderPlaced, async (order, context) => {
          expectTypeOf(order).toEqualTypeOf<Handled>();
          expectTypeOf(context).toEqualTypeOf<MessageContext>();
          expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>();
          await context.publish(Ping, null);
          // @ts-expect-error -- the payload of another message
          await context.publish(OrderPlaced, null);
          const { rows } = await context.tx.query<{ id: string }>('select 1');
          expectTypeOf(rows).toEqualTypeOf<{ id: string }[]>();
        })
        .handle(Ping, (nothing) => {
          expectTypeOf(nothing).toEqualTypeOf<null>();
        });
      whizbang.handleBatch(
        OrderPlaced,
        (messages) => {
          for (const { payload } of messages) expectTypeOf(payload).toEqualTypeOf<Handled>();
        },
        { maxBatch: 10 },
      );
      // @ts-expect-error -- a handler of another payload
      whizbang.handle(Ping, (order: Handled) => void order);
    });
  });
});
