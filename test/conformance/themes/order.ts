import assert from 'node:assert/strict';
import { MessageFailureReason } from '@whizbang/core/transport';
import { assertAllConfirmed, assertSequence, assertStreamsInOrder, describeOutcome } from '../assertions.js';
import { check, theme } from '../check.js';
import { interleaved, messagesTo, newStream } from '../messages.js';
import { requestOf } from '../receiver.js';
import { idsOf } from '../stage.js';

export const order = theme('order', [
  check(
    'a stream in one batch keeps its order at the broker',
    ['orderedStreams', 'atomicGroups', 'inspect'],
    async (stage) => {
      const destination = stage.destination();
      const broker = await stage.inspect(destination);
      const transport = await stage.transport();
      const batch = messagesTo(destination, 100, { stream: newStream() });
      assertAllConfirmed(await transport.publish(batch), batch);
      await broker.untilCount(batch.length);
      assertSequence(idsOf(broker.items), batch);
    },
  ),

  check('a stream in one batch keeps its order to the handler', ['orderedStreams', 'atomicGroups'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, {
      service: stage.service(),
      destination,
      maxBatch: 7,
      prefetch: 11,
    });
    const batch = messagesTo(destination, 100, { stream: newStream() });
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.untilCount(batch.length);
    assertSequence(receiver.acceptedIds, batch);
  }),

  check('a stream keeps its order across batches', ['orderedStreams', 'atomicGroups'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service: stage.service(), destination });
    const messages = messagesTo(destination, 100, { stream: newStream() });
    for (let from = 0; from < messages.length; from += 5) {
      const batch = messages.slice(from, from + 5);
      assertAllConfirmed(await transport.publish(batch), batch);
    }
    await receiver.accepted.untilCount(messages.length);
    assertSequence(receiver.acceptedIds, messages);
  }),

  check('fifty streams in one batch keep theirs', ['orderedStreams', 'atomicGroups'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service: stage.service(), destination });
    const batch = interleaved(destination, 50, 10);
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.untilCount(batch.length);
    assertStreamsInOrder(receiver.acceptedIds, batch);
  }),

  check(
    'two publishers of different streams do not disturb each other',
    ['orderedStreams', 'atomicGroups'],
    async (stage) => {
      const destination = stage.destination();
      const publishers = [await stage.transport(), await stage.transport()];
      const receiver = await stage.receive(await stage.transport(), { service: stage.service(), destination });
      const batches = publishers.map(() => Array.from({ length: 5 }, () => interleaved(destination, 5, 4)));
      await Promise.all(
        publishers.map(async (publisher, position) => {
          for (const batch of batches[position] ?? []) assertAllConfirmed(await publisher.publish(batch), batch);
        }),
      );
      await receiver.accepted.untilCount(200);
      assertStreamsInOrder(receiver.acceptedIds, batches.flat(2));
    },
  ),

  check('without ordered streams, an ordered subscription is refused', ['!orderedStreams'], async (stage) => {
    const { transport } = await stage.transport();
    const request = requestOf({ service: stage.service(), destination: stage.destination(), ordered: true });
    const subscribed = transport.subscribe(request, async () => undefined);
    await assert.rejects(subscribed, { code: 'WHIZBANG_CONFIGURATION' });
  }),

  check('without atomic groups, a stream goes out one by one', ['!atomicGroups'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    await stage.receive(transport, { service: stage.service(), destination });
    const outcomes = await transport.publish(messagesTo(destination, 3, { stream: newStream() }));
    assert.deepEqual(outcomes.map(describeOutcome), ['confirmed', 'notAttempted', 'notAttempted']);
  }),

  check('a destination that may not be created is reported', ['!createsTopology'], async (stage) => {
    const transport = await stage.transport();
    const [outcome] = await transport.publish(messagesTo(stage.destination('missing'), 1));
    assert.equal(outcome?.kind, 'failed', describeOutcome(outcome));
    assert.ok(
      outcome.kind === 'failed' && outcome.retryable && outcome.reason === MessageFailureReason.TransportNotReady,
    );
  }),
]);
