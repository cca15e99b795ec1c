import assert from 'node:assert/strict';
import {
  assertAllConfirmed,
  assertNothingConfirmed,
  assertSameSet,
  assertStreamsInOrder,
  firstArrivals,
} from '../assertions.js';
import { check, theme } from '../check.js';
import { interleaved } from '../messages.js';
import { idsOf } from '../stage.js';

export const outage = theme('outage', [
  check('readiness is told, with its cause, and comes back by itself', ['outage'], async (stage) => {
    const transport = await stage.transport();
    await stage.outage(async () => {
      await transport.untilReady(false);
      assert.ok(transport.readiness.items.at(-1)?.cause instanceof Error, 'a cause is given');
    });
    await transport.untilReady(true);
    const changes = transport.readiness.items.map(({ ready }) => ready);
    assert.ok(
      changes.every((ready, position) => ready !== changes[position - 1]),
      `only changes are told: ${changes.join(', ')}`,
    );
  }),

  check('publishing while the broker is away confirms nothing and does not hang', ['outage'], async (stage) => {
    const destination = stage.destination();
    const receiver = await stage.drain(destination);
    const transport = await stage.transport();
    const batch = interleaved(destination, 5, 3);
    await stage.outage(async () => {
      await transport.untilReady(false);
      assertNothingConfirmed(await transport.publish(batch), batch);
    });
    await transport.untilReady(true);
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.until(
      'the batch arrives',
      () => firstArrivals(receiver.acceptedIds).length === batch.length,
    );
  }),

  check(
    'publishing at the very moment of an outage settles, and what is confirmed is kept',
    ['outage', 'inspect'],
    async (stage) => {
      const destination = stage.destination();
      const broker = await stage.inspect(destination);
      const transport = await stage.transport();
      const batch = interleaved(destination, 50, 10);
      const publishing = transport.publish(batch);
      await stage.outage(() => transport.untilReady(false));
      const outcomes = await publishing;
      assert.equal(outcomes.length, batch.length);
      const confirmed = batch.filter((_, position) => outcomes[position]?.kind === 'confirmed');
      await broker.until('all that is confirmed is at the broker', (items) => {
        const present = new Set(items.map(({ messageId }) => messageId));
        return confirmed.every(({ messageId }) => present.has(messageId));
      });
    },
  ),

  check('what is confirmed survives an outage that begins at once', ['outage', 'inspect'], async (stage) => {
    const destination = stage.destination();
    const broker = await stage.inspect(destination);
    const transport = await stage.transport();
    const batch = interleaved(destination, 10, 2);
    assertAllConfirmed(await transport.publish(batch), batch);
    await stage.outage(() => transport.untilReady(false));
    await broker.untilCount(batch.length, 'all that is confirmed is at the broker');
    if (stage.fixture.capabilities.orderedStreams) assertStreamsInOrder(idsOf(broker.items), batch);
    else assertSameSet(idsOf(broker.items), batch);
  }),

  check('connecting and subscribing while the broker is away come true later', ['outage'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    await stage.provide(stage.requestOf({ service, destination }));
    const transport = await stage.unconnected();
    let receiving: ReturnType<typeof stage.subscribe> | undefined;
    await stage.outage(async () => {
      await transport.connect();
      assert.equal(transport.transport.ready(), false);
      receiving = stage.subscribe(transport, { service, destination });
      await receiving;
    });
    await transport.untilReady(true);
    const receiver = await receiving;
    await receiver?.untilItReceives(transport);
  }),

  check('closing while the broker is away', ['outage'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service: stage.service(), destination });
    await stage.outage(async () => {
      await transport.untilReady(false);
      await receiver.close(stage.deadlineMs);
      await transport.close();
    });
    assert.equal(transport.transport.ready(), false);
  }),
]);
