import { type Whizbang, createWhizbang } from '@whizbang/core';
import { InProcessBroker } from '@whizbang/core/testing';
import { waitFor } from '@whizbang/test/fixtures';
import { connect } from 'amqplib';

import { OrderPlaced, orderPlaced } from './order-placed.js';
import { distributionOf } from './percentiles.js';
import { report } from './report.js';
import { BenchServices } from './services.js';

// How fast one publisher empties an outbox of 1,000 streams, beside what the broker's own client does with the same bodies.
const count = Number(process.env['WHIZBANG_BENCH_MESSAGES'] ?? 20_000);
const repeats = Number(process.env['WHIZBANG_BENCH_REPEATS'] ?? 3);
const queue = 'drained';

await using services = new BenchServices();
const [database, broker] = [await services.database(), await services.broker()];
const pool = services.pool(database, 2);
const model = await connect(broker, { noDelay: true });
services.atEnd(() => model.close());
const channel = await model.createChannel();
await channel.assertExchange(OrderPlaced.destination, 'topic', { durable: true });
await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
await channel.bindQueue(queue, OrderPlaced.destination, '#');
InProcessBroker.named('drain').tap(OrderPlaced.destination, () => undefined);

const rates = { rabbitmq: [] as number[], memory: [] as number[], amqplib: [] as number[] };
for (let repeat = 0; repeat < repeats; repeat += 1) {
  rates.rabbitmq.push(await drain(broker));
  rates.memory.push(await drain('memory:drain'));
  rates.amqplib.push(await raw());
}
const names = {
  rabbitmq: 'outbox → RabbitMQ quorum queue, confirmed',
  memory: 'outbox → in-process',
  amqplib: 'amqplib alone → quorum queue, confirmed, 1,000 in flight',
};
const rows = Object.entries(rates).map(([way, perSecond]) => ({
  way: names[way as keyof typeof names],
  'messages/s (median)': distributionOf(perSecond).p50,
  runs: perSecond.map((rate) => Math.round(rate)).join(', '),
}));
await report('drain', rows, [
  `${count} messages of 1,000 streams, ${JSON.stringify(orderPlaced(0)).length} bytes each.`,
]);

async function drain(url: string): Promise<number> {
  await fill();
  const whizbang: Whizbang = await createWhizbang({ service: 'orders', database, broker: url });
  const begun = performance.now();
  await whizbang.start();
  await waitFor(() => whizbang.counters.published === count, {
    message: 'an empty outbox',
    timeoutMs: 300_000,
    intervalMs: 5,
  });
  const perSecond = (count / (performance.now() - begun)) * 1000;
  await whizbang.stop();
  await channel.purgeQueue(queue);
  return perSecond;
}

async function fill(): Promise<void> {
  const producer = await createWhizbang({ service: 'orders', database: pool, broker: 'memory:' });
  for (let index = 0; index < count; index += 1000) {
    const payloads = Array.from({ length: Math.min(1000, count - index) }, (_, offset) => orderPlaced(index + offset));
    const client = await pool.connect();
    await client.query('begin');
    await producer.publishMany(client, OrderPlaced, payloads);
    await client.query('commit');
    client.release();
  }
  await producer.stop();
  await pool.query('vacuum analyze whizbang.wh_outbox');
}

async function raw(): Promise<number> {
  const confirming = await model.createConfirmChannel();
  const body = Buffer.from(JSON.stringify(orderPlaced(0)));
  const begun = performance.now();
  let sent = 0;
  let confirmed = 0;
  await new Promise<void>((resolve, reject) => {
    const send = (): void => {
      while (sent < count && sent - confirmed < 1000) {
        sent += 1;
        confirming.publish(OrderPlaced.destination, OrderPlaced.type, body, { persistent: true }, (error: unknown) => {
          if (error !== null) return reject(new Error('not confirmed', { cause: error }));
          confirmed += 1;
          if (confirmed === count) resolve();
          else send();
        });
      }
    };
    send();
  });
  const perSecond = (count / (performance.now() - begun)) * 1000;
  await confirming.close();
  await channel.purgeQueue(queue);
  return perSecond;
}
