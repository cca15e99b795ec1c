import { defineMessage } from '@whizbang/core';
import { z } from 'zod';

/** The n-th message of an order; its order is its stream. */
export const OrderChanged = defineMessage('orders.order-changed', {
  schema: z.object({ order: z.string(), number: z.number(), rolledBack: z.boolean().optional() }),
  destination: 'orders',
  stream: ({ order }) => order,
});

/** Nothing to keep in order. */
export const NoteTaken = defineMessage('notes.note-taken', {
  schema: z.object({ note: z.unknown() }),
  destination: 'notes',
});
