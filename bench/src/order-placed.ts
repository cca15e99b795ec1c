import { defineMessage } from '@whizbang/core';
import { z } from 'zod';

/** About 300 bytes of JSON, as an order would have. */
export const OrderPlaced = defineMessage('orders.order-placed', {
  schema: z.object({ order: z.string(), sentAt: z.number(), lines: z.string() }),
  destination: 'orders',
  stream: ({ order }) => order,
});

export function orderPlaced(index: number, streams = 1000): { order: string; sentAt: number; lines: string } {
  return {
    order: `order-${index % streams}`,
    sentAt: performance.timeOrigin + performance.now(),
    lines: 'x'.repeat(240),
  };
}
