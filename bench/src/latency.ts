import { setTimeout as delay } from 'node:timers/promises';

import { waitFor } from '@whizbang/test/fixtures';

import { OrderPlaced, orderPlaced } from './order-placed.js';
import { distributionOf } from './percentiles.js';
import { report } from './report.js';
import { BenchServices, untilAsleep } from './services.js';

// publishNow → handler, through RabbitMQ, two services with a database each, all in this process.
await using services = new BenchServices();
const [ordersUrl, shippingUrl, broker] = [
  await services.database(),
  await services.database(),
  await services.broker(),
];
const shippingPool = services.pool(shippingUrl, 2);
const ordersPool = services.pool(ordersUrl, 2);

let arrived: number[] = [];
const shipping = await services.service({
  service: 'shipping',
  database: shippingUrl,
  broker,
  publisher: { enabled: false },
});
shipping.handle(OrderPlaced, ({ sentAt }) => void arrived.push(performance.timeOrigin + performance.now() - sentAt));
await shipping.start();
const orders = await services.service({ service: 'orders', database: ordersUrl, broker });
await orders.start();

async function publishAt(perSecond: number, count: number): Promise<number[]> {
  arrived = [];
  const begun = performance.now();
  const publishing: Promise<unknown>[] = [];
  for (let index = 0; index < count; index += 1) {
    await delay(Math.max(0, begun + (index * 1000) / perSecond - performance.now()));
    publishing.push(orders.publishNow(OrderPlaced, orderPlaced(index)));
  }
  await Promise.all(publishing);
  await waitFor(() => arrived.length === count, { message: 'all messages', timeoutMs: 60_000 });
  return arrived;
}

async function publishFromIdle(count: number): Promise<number[]> {
  const latencies: number[] = [];
  for (let index = 0; index < count; index += 1) {
    await untilAsleep(ordersPool, 1);
    await untilAsleep(shippingPool, 1);
    // The moment of falling asleep is not the idle that is meant.
    await delay(300);
    latencies.push(...(await publishAt(1000, 1)));
  }
  return latencies;
}

await publishAt(50, 100);
const rows = [
  { from: 'idle, one at a time', ...distributionOf(await publishFromIdle(60)) },
  { from: '50 a second', ...distributionOf(await publishAt(50, 1500)) },
];
await report('latency', rows, ['Milliseconds from the call of publishNow to the begin of the handler.']);
