import { defineMessage } from '@whizbang/core';
import { z } from 'zod';

/** The n-th step of an order; its order is its stream. */
export const OrderStep = defineMessage('faults.order-step', {
  schema: z.object({
    order: z.string(),
    number: z.number(),
    /** Published in a transaction or to a savepoint that is rolled back: nobody may ever see it. */
    rolledBack: z.boolean(),
    /** So many tries of its handler fail. */
    failures: z.number(),
    /** Its handler says that it can never succeed. */
    hopeless: z.boolean(),
    /** Makes batches of some size. */
    filling: z.string(),
  }),
  destination: 'orders',
  stream: ({ order }) => order,
});

export const orderCount = 150;
/** Rows that each handler changes two of, in the order of their names. */
export const accountCount = 12;
