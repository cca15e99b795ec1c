import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { assertAllConfirmed, assertSameSet, assertSequence } from '../assertions.js';
import type { Delivery } from '@whizbang/core/transport';
import { check, theme } from '../check.js';
import { messageTo, messagesTo, newStream } from '../messages.js';
import { idOf } from '../receiver.js';

export const receiving = theme('receiving', [
  check('the handler is never called while a call of it runs', [], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, {
      service: stage.service(),
      destination,
      maxBatch: 5,
      // Long enough for a second call to show, had one been made.
      handle: async () => {
        for (let turns = 0; turns < 20; turns += 1) await turn();
      },
    });
    const batch = messagesTo(destination, 200);
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.untilCount(batch.length);
    assert.equal(receiver.mostAtOnce, 1, 'calls at the same time');
    assertSameSet(receiver.acceptedIds, batch);
  }),

  check('a slow handler gets nothing more until it has settled', ['fanOut'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const hold = stage.hold();
    const receiver = await stage.receive(transport, {
      service: stage.service(),
      destination,
      maxBatch: 1,
      handle: (_, call) => (call === 1 ? hold.wait() : undefined),
    });
    const stream = newStream();
    const batch = messagesTo(destination, 20, { stream });
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.handed.untilCount(1);
    // Another subscription of the same transport works meanwhile, so the silence of the first is not that of the broker.
    const other = await stage.receive(transport, { service: stage.service('other'), destination });
    const more = messageTo(destination, { stream });
    assertAllConfirmed(await transport.publish([more]), [more]);
    await other.accepted.untilCount(1);
    assert.equal(receiver.calls.length, 1);
    hold.release();
    await receiver.accepted.untilCount(batch.length + 1);
    assertSequence(receiver.acceptedIds, [...batch, more]);
  }),

  check('a call has at most maxBatch deliveries, and at least one', [], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service: stage.service(), destination, maxBatch: 7 });
    const batch = messagesTo(destination, 100);
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.untilCount(batch.length);
    const sizes = receiver.calls.map(({ length }) => length);
    assert.ok(Math.min(...sizes) >= 1 && Math.max(...sizes) <= 7, `sizes of calls: ${sizes.join(', ')}`);
  }),

  check('at most prefetch deliveries are unacknowledged', ['competingConsumers'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const [first, second] = [await stage.transport(), await stage.transport()];
    const hold = stage.hold();
    const together = stage.arrivals<Delivery>();
    const options = { service, destination, ordered: false, prefetch: 5, maxBatch: 50, alsoInto: together };
    const holding = await stage.receive(first, { ...options, handle: () => hold.wait() });
    const batch = messagesTo(destination, 30);
    assertAllConfirmed(await first.publish(batch), batch);
    await holding.handed.untilCount(1);
    assert.ok(holding.handed.items.length <= 5, `${holding.handed.items.length} in one call with prefetch 5`);
    // What the first may not have reaches the second.
    const free = await stage.subscribe(second, options);
    await free.accepted.untilCount(25);
    hold.release();
    await together.untilCount(batch.length);
    assertSameSet(together.items.map(idOf), batch);
  }),

  check('only the message types asked for arrive', ['fanOut'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const wanted = await stage.receive(transport, {
      service: stage.service(),
      destination,
      types: ['a.wanted', 'b.wanted'],
    });
    const rest = await stage.receive(transport, {
      service: stage.service('rest'),
      destination,
      types: ['a.other', 'a.wanted.too'],
    });
    const types = ['a.wanted', 'a.other', 'b.wanted', 'a.wanted.too', 'a.wanted'];
    const batch = types.map((type) => messageTo(destination, { type }));
    assertAllConfirmed(await transport.publish(batch), batch);
    await Promise.all([wanted.accepted.untilCount(3), rest.accepted.untilCount(2)]);
    // Closing waits for whatever is still in hand.
    await Promise.all([wanted.close(), rest.close()]);
    assertSameSet(
      wanted.acceptedIds,
      batch.filter(({ messageType }) => ['a.wanted', 'b.wanted'].includes(messageType)),
    );
    assertSameSet(
      rest.acceptedIds,
      batch.filter(({ messageType }) => ['a.other', 'a.wanted.too'].includes(messageType)),
    );
  }),

  check('one subscription may receive from several destinations', [], async (stage) => {
    const [orders, payments] = [stage.destination('orders'), stage.destination('payments')];
    const transport = await stage.transport();
    const alsoFrom = [{ destination: payments, messageTypes: ['payment.made'] }];
    const receiver = await stage.receive(transport, { service: stage.service(), destination: orders, alsoFrom });
    const batch = [messageTo(orders), messageTo(payments, { type: 'payment.made' }), messageTo(orders)];
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.untilCount(3);
    assertSameSet(receiver.acceptedIds, batch);
    const froms = receiver.accepted.items.map(({ destination }) => destination).toSorted();
    assert.deepEqual(froms, [orders, orders, payments].toSorted());
  }),

  check('what arrives while nobody receives is kept for the service', [], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const transport = await stage.transport();
    const before = await stage.receive(transport, { service, destination });
    await before.close();
    const batch = messagesTo(destination, 20, { stream: newStream() });
    assertAllConfirmed(await transport.publish(batch), batch);
    const after = await stage.subscribe(transport, { service, destination });
    await after.accepted.untilCount(batch.length);
    assertSequence(after.acceptedIds, batch);
    assert.deepEqual(before.acceptedIds, [], 'deliveries of the closed subscription');
  }),

  check('subscriptions of one transport do not wait for each other', ['fanOut'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const hold = stage.hold();
    const slow = await stage.receive(transport, {
      service: stage.service('slow'),
      destination,
      handle: () => hold.wait(),
    });
    const fast = await stage.receive(transport, { service: stage.service('fast'), destination });
    const batch = messagesTo(destination, 50);
    assertAllConfirmed(await transport.publish(batch), batch);
    await Promise.all([fast.accepted.untilCount(50), slow.handed.untilCount(1)]);
    assert.equal(slow.accepted.items.length, 0);
  }),
]);
