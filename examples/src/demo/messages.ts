import { defineMessage } from '@whizbang/core';
import { z } from 'zod';

const orderLine = {
  /** Names a run of the demo: what an interrupted one left at a real broker is told apart by it. */
  run: z.string(),
  orderId: z.uuid(),
  /** 1, 2, 3 … within its order. */
  line: z.int().positive(),
};

/** orders → shipping */
export const OrderLineAdded = defineMessage('orders.line-added', {
  schema: z.object({ ...orderLine, item: z.string(), transactionId: z.uuid() }),
  destination: 'whizbang-demo.orders',
  stream: (added) => added.orderId,
});

/** shipping → orders, published in the handler of {@link OrderLineAdded} */
export const ParcelSent = defineMessage('shipping.parcel-sent', {
  schema: z.object(orderLine),
  destination: 'whizbang-demo.shipping',
  stream: (sent) => sent.orderId,
});
