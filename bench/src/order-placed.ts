import { defineMessage } from '@whizbang/core';
import { z } from 'zod';

/** The message of all benches: a body of exactly 1 KB of JSON, whoever carries it. */
export interface Order {
  readonly sequence: number;
  /** What messages are ordered by. */
  readonly order: string;
  readonly lines: string;
}

const schema = z.object({ sequence: z.number(), order: z.string(), lines: z.string() });

/** Ordered by its order. */
export const OrderPlaced = defineMessage('orders.order-placed', {
  schema,
  destination: 'orders',
  stream: ({ order }) => order,
});

/** The same without any order. */
export const OrderNoted = defineMessage('orders.order-noted', { schema, destination: 'orders' });

const bodyBytes = 1024;
// Not all the same letter: compression and out-of-line storage have to work for it as they would with a real body.
const text = Array.from({ length: bodyBytes }, (_, index) => ((index * 7919 + 13) % 36).toString(36)).join('');

export function orderPlaced(sequence: number, streams = 1000): Order {
  const order = { sequence, order: `order-${sequence % streams}`, lines: '' };
  return { ...order, lines: text.slice(0, bodyBytes - JSON.stringify(order).length) };
}

export function ordersPlaced(count: number, streams: number, first = 0): Order[] {
  return Array.from({ length: count }, (_, index) => orderPlaced(first + index, streams));
}

const begin = '{"sequence":';

/** The sequence of a body, without reading the rest of it where its members are in our order; jsonb has an order of its own. */
export function sequenceOf(body: Buffer): number {
  if (body.toString('latin1', 0, begin.length) !== begin) return (JSON.parse(body.toString()) as Order).sequence;
  return Number(body.toString('latin1', begin.length, body.indexOf(',', begin.length)));
}
