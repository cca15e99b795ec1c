import assert from 'node:assert/strict';
import { assertAllConfirmed, assertSequence, assertSameSet } from '../assertions.js';
import { check, theme } from '../check.js';
import { interleaved, messageTo, messagesTo, newStream } from '../messages.js';
import { idsOf } from '../stage.js';

export const publishing = theme('publishing', [
  check('a confirmed message is at the broker', ['inspect'], async (stage) => {
    const destination = stage.destination();
    const broker = await stage.inspect(destination);
    const transport = await stage.transport();
    const message = messageTo(destination, { stream: newStream() });
    assertAllConfirmed(await transport.publish([message]), [message]);
    await broker.untilCount(1);
    assert.deepEqual(idsOf(broker.items), [message.messageId]);
    assert.deepEqual(broker.items[0]?.body, message.body);
  }),

  check('an empty batch has no outcomes', [], async (stage) => {
    const transport = await stage.transport();
    assert.deepEqual(await transport.publish([]), []);
  }),

  check('every message of a batch of 1,000 reaches the broker once', ['inspect'], async (stage) => {
    const destination = stage.destination();
    const broker = await stage.inspect(destination);
    const transport = await stage.transport();
    const batch = interleaved(destination, 100, 10);
    assertAllConfirmed(await transport.publish(batch), batch);
    await broker.untilCount(batch.length);
    assertSameSet(idsOf(broker.items), batch);
  }),

  check('every message of a batch of 1,000 reaches the handler once', [], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service: stage.service(), destination });
    const batch = messagesTo(destination, 1_000);
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.untilCount(batch.length);
    assertSameSet(receiver.acceptedIds, batch);
  }),

  check('one batch may go to several destinations', ['inspect'], async (stage) => {
    const destinations = [stage.destination('orders'), stage.destination('payments'), stage.destination('returns')];
    const brokers = await Promise.all(destinations.map((destination) => stage.inspect(destination)));
    const transport = await stage.transport();
    const batch = Array.from({ length: 10 }, () => destinations.map((destination) => messageTo(destination))).flat();
    assertAllConfirmed(await transport.publish(batch), batch);
    for (const [position, broker] of brokers.entries()) {
      await broker.untilCount(10);
      const sent = batch.filter(({ destination }) => destination === destinations[position]);
      assertSameSet(idsOf(broker.items), sent, `messages of ${destinations[position]}`);
    }
  }),

  check('what is confirmed does not depend on the transport any more', ['inspect'], async (stage) => {
    const destination = stage.destination();
    const broker = await stage.inspect(destination);
    const transport = await stage.transport();
    const batch = interleaved(destination, 10, 5);
    assertAllConfirmed(await transport.publish(batch), batch);
    await transport.close();
    await broker.untilCount(batch.length);
    assertSameSet(idsOf(broker.items), batch);
  }),

  check('several batches may be on their way at once', ['inspect'], async (stage) => {
    const destination = stage.destination();
    const broker = await stage.inspect(destination);
    const transport = await stage.transport();
    const batches = Array.from({ length: 5 }, () => interleaved(destination, 4, 5));
    const outcomes = await Promise.all(batches.map((batch) => transport.publish(batch)));
    for (const [position, batch] of batches.entries()) assertAllConfirmed(outcomes[position] ?? [], batch);
    await broker.untilCount(100);
    assertSameSet(idsOf(broker.items), batches.flat());
  }),

  check('one message per publish, in turn', ['inspect'], async (stage) => {
    const destination = stage.destination();
    const broker = await stage.inspect(destination);
    const transport = await stage.transport();
    const messages = messagesTo(destination, 30, { stream: newStream() });
    for (const message of messages) assertAllConfirmed(await transport.publish([message]), [message]);
    await broker.untilCount(messages.length);
    assertSequence(idsOf(broker.items), messages);
  }),
]);
