import assert from 'node:assert/strict';
import { assertAllConfirmed, assertSequence, firstArrivals } from '../assertions.js';
import { check, theme } from '../check.js';
import { messagesTo, newStream } from '../messages.js';
import { publishSteadily } from '../publish-steadily.js';

export const outageReceiving = theme('receiving through an outage', [
  check('a subscription survives', ['outage'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service: stage.service(), destination });
    for (let round = 1; round <= 2; round += 1) {
      await stage.outage(() => transport.untilReady(false));
      await transport.untilReady(true);
      const batch = messagesTo(destination, 5);
      assertAllConfirmed(await transport.publish(batch), batch);
      await receiver.accepted.until(`arrivals after outage ${round}`, () => {
        return batch.every(({ messageId }) => receiver.acceptedIds.includes(messageId));
      });
    }
  }),

  check('nothing is lost across outages, and streams keep their order', ['outage', 'orderedStreams'], async (stage) => {
    const destination = stage.destination();
    const [publisher, consumer] = [await stage.transport(), await stage.transport()];
    const receiver = await stage.receive(consumer, {
      service: stage.service(),
      destination,
      maxBatch: 10,
      prefetch: 20,
    });
    const messages = messagesTo(destination, 300, { stream: newStream() });
    const publishing = publishSteadily(publisher, messages);
    publishing.catch(() => undefined);
    for (const threshold of [50, 150]) {
      await receiver.accepted.untilCount(threshold);
      await stage.outage(async () => {
        await Promise.all([publisher.untilReady(false), consumer.untilReady(false)]);
      });
    }
    await publishing;
    const last = messages.at(-1)?.messageId ?? '';
    await receiver.accepted.until('the last message arrives', () => receiver.acceptedIds.includes(last));
    assertSequence(firstArrivals(receiver.acceptedIds), messages, 'first arrivals');
    assert.equal(receiver.mostAtOnce, 1, 'calls at the same time');
  }),

  check('what the handler had not accepted when the connection broke comes again', ['outage'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const hold = stage.hold();
    const receiver = await stage.receive(transport, {
      service: stage.service(),
      destination,
      maxBatch: 3,
      handle: async (_, call) => {
        if (call !== 1) return;
        await hold.wait();
        throw new Error('rejected by the check');
      },
    });
    const batch = messagesTo(destination, 10, { stream: newStream() });
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.handed.untilCount(1);
    await stage.outage(() => transport.untilReady(false));
    await transport.untilReady(true);
    hold.release();
    await receiver.accepted.until('all arrive', () => firstArrivals(receiver.acceptedIds).length === batch.length);
    assertSequence(firstArrivals(receiver.acceptedIds), batch);
    assert.equal(receiver.mostAtOnce, 1, 'calls at the same time');
  }),

  check('a handler that ends after the outage does no harm', ['outage'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const hold = stage.hold();
    const receiver = await stage.receive(transport, {
      service: stage.service(),
      destination,
      maxBatch: 3,
      handle: (_, call) => (call === 1 ? hold.wait() : undefined),
    });
    const batch = messagesTo(destination, 10, { stream: newStream() });
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.handed.untilCount(1);
    await stage.outage(() => transport.untilReady(false));
    await transport.untilReady(true);
    // Its acknowledgement belongs to a connection that is gone; sent on the new one it would break that, too.
    hold.release();
    await receiver.accepted.until('all arrive', () => firstArrivals(receiver.acceptedIds).length === batch.length);
    const next = messagesTo(destination, 3);
    assertAllConfirmed(await transport.publish(next), next);
    await receiver.accepted.until('the next arrive', () => firstArrivals(receiver.acceptedIds).length === 13);
    assertSequence(firstArrivals(receiver.acceptedIds), [...batch, ...next]);
    assert.equal(receiver.mostAtOnce, 1, 'calls at the same time');
  }),

  check('the standby takes over after an outage of both, in order', ['outage', 'orderedStreams'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const [first, second] = [await stage.transport(), await stage.transport()];
    const together = stage.arrivals<string>();
    const handle = (deliveries: readonly { attributes: Readonly<Record<string, string>> }[]): void => {
      together.push(...deliveries.map(({ attributes }) => attributes['id'] ?? 'no id'));
    };
    await stage.receive(first, { service, destination, maxBatch: 5, prefetch: 10, handle });
    await stage.subscribe(second, { service, destination, maxBatch: 5, prefetch: 10, handle });
    await stage.outage(async () => {
      await Promise.all([first.untilReady(false), second.untilReady(false)]);
    });
    await Promise.all([first.untilReady(true), second.untilReady(true)]);
    await first.close();
    const batch = messagesTo(destination, 50, { stream: newStream() });
    assertAllConfirmed(await second.publish(batch), batch);
    await together.until('all arrive', (ids) => firstArrivals(ids).length === batch.length);
    assertSequence(firstArrivals(together.items), batch);
  }),

  check('what waits in a queue is kept over an outage', ['outage', 'durable'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const transport = await stage.transport();
    await (await stage.receive(transport, { service, destination })).close();
    const batch = messagesTo(destination, 50, { stream: newStream() });
    assertAllConfirmed(await transport.publish(batch), batch);
    await stage.outage(() => transport.untilReady(false));
    await transport.untilReady(true);
    const receiver = await stage.subscribe(transport, { service, destination });
    await receiver.accepted.untilCount(batch.length);
    assertSequence(receiver.acceptedIds, batch);
  }),
]);
