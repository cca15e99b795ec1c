import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { Delivery } from '@whizbang/core/transport';
import { assertAllConfirmed, assertSameSet, assertSequence, assertStreamsInOrder } from '../assertions.js';
import { check, theme } from '../check.js';
import { interleaved, messagesTo, newStream } from '../messages.js';
import { type Receiver, idOf } from '../receiver.js';
import type { Stage } from '../stage.js';
import type { StagedTransport } from '../staged-transport.js';

/** A stream that the first instance has while the second stands by. */
async function streamOf(stage: Stage, active: Receiver, standby: Receiver, through: StagedTransport): Promise<string> {
  await stage.within('the second instance stands by', standby.subscription.established);
  return active.streamItReceives(through, [standby]);
}

export const sharing = theme('services and instances', [
  check('two services each get every message', ['fanOut'], async (stage) => {
    const destination = stage.destination();
    const [shipping, billing] = [await stage.transport(), await stage.transport()];
    const receivers = [
      await stage.receive(shipping, { service: stage.service('shipping'), destination }),
      await stage.receive(billing, { service: stage.service('billing'), destination }),
    ];
    const batch = interleaved(destination, 10, 10);
    assertAllConfirmed(await shipping.publish(batch), batch);
    for (const receiver of receivers) {
      await receiver.accepted.untilCount(batch.length);
      if (stage.fixture.capabilities.orderedStreams) assertStreamsInOrder(receiver.acceptedIds, batch);
      else assertSameSet(receiver.acceptedIds, batch);
    }
  }),

  check('two unordered instances of a service share its messages', ['competingConsumers'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const transports = [await stage.transport(), await stage.transport()];
    const together = stage.arrivals<Delivery>();
    const served = new Set<number>();
    const bothServed = stage.hold();
    // Nobody goes on before both have something, so a subscription that gets nothing stops everything.
    const handle = (instance: number) => () => {
      served.add(instance);
      if (served.size === 2) bothServed.release();
      return bothServed.wait();
    };
    const shared = { service, destination, ordered: false, prefetch: 10, maxBatch: 10, alsoInto: together };
    for (const [instance, transport] of transports.entries()) {
      const options = { ...shared, handle: handle(instance) };
      await (instance === 0 ? stage.receive(transport, options) : stage.subscribe(transport, options));
    }
    const batch = messagesTo(destination, 300);
    assertAllConfirmed((await transports[0]?.publish(batch)) ?? [], batch);
    await together.untilCount(batch.length);
    for (const transport of transports) await transport.close();
    assertSameSet(together.items.map(idOf), batch);
  }),

  check('of two unordered instances, each message reaches one', ['!competingConsumers'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const [first, second] = [await stage.transport(), await stage.transport()];
    const together = stage.arrivals<Delivery>();
    const shared = { service, destination, ordered: false, alsoInto: together };
    await stage.receive(first, shared);
    const joining = await stage.subscribe(second, shared);
    await stage.within('the second instance has joined', joining.subscription.established);
    const batch = messagesTo(destination, 300);
    assertAllConfirmed(await first.publish(batch), batch);
    await together.untilCount(batch.length);
    await Promise.all([first.close(), second.close()]);
    assertSameSet(together.items.map(idOf), batch);
  }),

  check('of ordered instances, one at a time receives', ['orderedStreams'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const transports = [await stage.transport(), await stage.transport(), await stage.transport()];
    const together = stage.arrivals<Delivery>();
    let running = 0;
    let most = 0;
    const handle = async (): Promise<void> => {
      running += 1;
      most = Math.max(most, running);
      for (let turns = 0; turns < 10; turns += 1) await turn();
      running -= 1;
    };
    const shared = { service, destination, maxBatch: 5, prefetch: 10, alsoInto: together, handle };
    for (const [instance, transport] of transports.entries()) {
      await (instance === 0 ? stage.receive(transport, shared) : stage.subscribe(transport, shared));
    }
    const batch = messagesTo(destination, 100, { stream: newStream() });
    assertAllConfirmed((await transports[0]?.publish(batch)) ?? [], batch);
    await together.untilCount(batch.length);
    for (const transport of transports) await transport.close();
    assertSequence(together.items.map(idOf), batch);
    assert.equal(most, 1, 'handlers of one stream at the same time');
  }),

  check('closing the active subscription hands over to the next, in order', ['orderedStreams'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const [first, second] = [await stage.transport(), await stage.transport()];
    const together = stage.arrivals<Delivery>();
    const enough = stage.hold();
    const shared = { service, destination, maxBatch: 4, prefetch: 20, alsoInto: together };
    const active = await stage.receive(first, {
      ...shared,
      handle: (_, call) => {
        if (call === 3) enough.release();
      },
    });
    const standby = await stage.subscribe(second, shared);
    const batch = messagesTo(destination, 150, { stream: await streamOf(stage, active, standby, second) });
    const published = second.publish(batch);
    await stage.within('the active instance has handled some', enough.wait());
    await active.close();
    assertAllConfirmed(await published, batch);
    await together.untilCount(batch.length);
    assertSequence(together.items.map(idOf), batch);
    assert.ok(standby.accepted.items.length > 0 || active.accepted.items.length === batch.length);
  }),

  check('the next instance waits for the handler call in hand', ['orderedStreams', 'fanOut'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const [first, second] = [await stage.transport(), await stage.transport()];
    const together = stage.arrivals<Delivery>();
    const hold = stage.hold();
    const shared = { service, destination, maxBatch: 4, prefetch: 8, alsoInto: together };
    const active = await stage.receive(first, { ...shared, handle: () => hold.wait() });
    const standby = await stage.subscribe(second, shared);
    const batch = messagesTo(destination, 20, { stream: await streamOf(stage, active, standby, second) });
    assertAllConfirmed(await second.publish(batch), batch);
    await active.handed.untilCount(1);
    const closed = active.close();
    // A round trip through the broker, in which a hasty hand-over would show.
    await stage.receive(second, { service: stage.service('other'), destination });
    assert.equal(standby.handed.items.length, 0, 'the standby received while the active handler ran');
    hold.release();
    await closed;
    await together.untilCount(batch.length);
    assertSequence(together.items.map(idOf), batch);
    assert.ok(standby.accepted.items.length >= batch.length - 8);
  }),

  check('what the closing instance rejects goes to the next, first and in order', ['orderedStreams'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const [first, second] = [await stage.transport(), await stage.transport()];
    const hold = stage.hold();
    const shared = { service, destination, maxBatch: 4, prefetch: 8 };
    const active = await stage.receive(first, {
      ...shared,
      handle: async () => {
        await hold.wait();
        throw new Error('rejected by the check');
      },
    });
    const standby = await stage.subscribe(second, shared);
    const batch = messagesTo(destination, 20, { stream: await streamOf(stage, active, standby, second) });
    assertAllConfirmed(await second.publish(batch), batch);
    await active.handed.untilCount(1);
    const closed = active.close();
    hold.release();
    await closed;
    await standby.accepted.untilCount(batch.length);
    assertSequence(standby.acceptedIds, batch);
  }),

  check('closing the transport of the active instance hands over as well', ['orderedStreams'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const [first, second] = [await stage.transport(), await stage.transport()];
    const together = stage.arrivals<Delivery>();
    const shared = { service, destination, maxBatch: 3, prefetch: 9, alsoInto: together };
    const active = await stage.receive(first, shared);
    const standby = await stage.subscribe(second, shared);
    const batch = messagesTo(destination, 100, { stream: await streamOf(stage, active, standby, second) });
    const published = second.publish(batch);
    await active.accepted.untilCount(1);
    await first.close();
    assertAllConfirmed(await published, batch);
    await together.untilCount(batch.length);
    assertSequence(together.items.map(idOf), batch);
  }),
]);
