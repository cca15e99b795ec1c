import assert from 'node:assert/strict';
import type { Delivery } from '@whizbang/core/transport';
import { assertAllConfirmed, assertSameSet, assertSequence } from '../assertions.js';
import { check, theme } from '../check.js';
import { messagesTo, newStream } from '../messages.js';
import { idOf, isProbe } from '../receiver.js';

export const redelivery = theme('redelivery', [
  check('a rejected batch comes again, in the same order, and nothing is lost', ['orderedStreams'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const rejectedCalls = [1, 3];
    const receiver = await stage.receive(transport, {
      service: stage.service(),
      destination,
      maxBatch: 8,
      prefetch: 16,
      handle: (_, call) => {
        if (rejectedCalls.includes(call)) throw new Error('rejected by the check');
      },
    });
    const batch = messagesTo(destination, 60, { stream: newStream() });
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.untilCount(batch.length);
    assertSequence(receiver.acceptedIds, batch);
    for (const call of rejectedCalls) {
      const [rejected = [], next = []] = receiver.calls.slice(call - 1, call + 1);
      const both = Math.min(rejected.length, next.length);
      assert.deepEqual(
        next.slice(0, both),
        rejected.slice(0, both),
        `call ${call + 1} begins like the rejected call ${call}`,
      );
    }
  }),

  check('a message that is never accepted stays with the service', [], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const transport = await stage.transport();
    const refusing = await stage.receive(transport, {
      service,
      destination,
      handle: () => Promise.reject(new Error('rejected by the check')),
    });
    const batch = messagesTo(destination, 3, { stream: newStream() });
    assertAllConfirmed(await transport.publish(batch), batch);
    await refusing.handed.untilCount(batch.length * 2, 'the messages are handed over a second time');
    await refusing.close();
    const accepting = await stage.subscribe(transport, { service, destination });
    await accepting.accepted.untilCount(batch.length);
    assertSequence(accepting.acceptedIds, batch);
    assert.ok(
      accepting.accepted.items.every(({ redelivered }) => redelivered),
      'marked redelivered',
    );
  }),

  check('what an unordered instance rejects is not lost', [], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const together = stage.arrivals<Delivery>();
    const options = {
      ...{ service, destination, ordered: false, maxBatch: 5, prefetch: 10, alsoInto: together },
      handle: (_: unknown, call: number) => {
        if (call % 2 === 1 && call < 5) throw new Error('rejected by the check');
      },
    };
    const [publisher, other] = [await stage.transport(), await stage.transport()];
    await stage.receive(publisher, options);
    await stage.subscribe(other, options);
    const batch = messagesTo(destination, 100);
    assertAllConfirmed(await publisher.publish(batch), batch);
    await together.untilCount(batch.length);
    await Promise.all([publisher.close(), other.close()]);
    assertSameSet(together.items.map(idOf), batch);
  }),

  check('there is a pause before a rejected batch comes again', [], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const times: number[] = [];
    const receiver = await stage.receive(transport, {
      service: stage.service(),
      destination,
      handle: (_, call) => {
        times.push(performance.now());
        if (call <= 3) throw new Error('rejected by the check');
      },
    });
    const batch = messagesTo(destination, 1);
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.untilCount(1);
    const [first = 0, last = 0] = [times[0], times.at(-1)];
    // Any pause passes; a loop that only turns round through the broker does it in a few milliseconds.
    assert.ok(last - first >= 30, `three rejections within ${Math.round(last - first)} ms`);
  }),

  check('a handler that throws instead of rejecting is a rejection', [], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const transport = await stage.transport();
    // Declares the queue, so that nothing is sent before it exists.
    await (await stage.receive(transport, { service, destination })).close();
    const handed = stage.arrivals<Delivery>();
    await stage.within(
      'subscribe resolves',
      transport.transport.subscribe(stage.requestOf({ service, destination }), (deliveries) => {
        // Of the first subscription's probes, some may have been left behind.
        handed.push(...deliveries.filter((delivery) => !isProbe(delivery)));
        if (handed.items.length === 1) throw new Error('thrown by the check');
        return Promise.resolve();
      }),
    );
    const batch = messagesTo(destination, 1);
    assertAllConfirmed(await transport.publish(batch), batch);
    await handed.untilCount(2);
    assertSequence([...new Set(handed.items.map(idOf))], batch);
  }),

  check('one service that rejects does not disturb another', ['fanOut'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const refusing = await stage.receive(transport, {
      service: stage.service('refusing'),
      destination,
      handle: () => Promise.reject(new Error('rejected by the check')),
    });
    const accepting = await stage.receive(transport, { service: stage.service('accepting'), destination });
    const batch = messagesTo(destination, 20, { stream: newStream() });
    assertAllConfirmed(await transport.publish(batch), batch);
    await Promise.all([accepting.accepted.untilCount(batch.length), refusing.handed.untilCount(1)]);
    assertSequence(accepting.acceptedIds, batch);
    assert.equal(refusing.accepted.items.length, 0);
  }),
]);
