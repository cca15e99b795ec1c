import assert from 'node:assert/strict';
import { MessageFailureReason, type PublishOutcome } from '@whizbang/core/transport';
import {
  assertAllConfirmed,
  assertNothingConfirmed,
  assertSequence,
  assertStreamsInOrder,
  describeOutcome,
  firstArrivals,
} from '../assertions.js';
import { check, theme } from '../check.js';
import { interleaved, messageTo, messagesTo, newStream } from '../messages.js';
import { publishSteadily } from '../publish-steadily.js';

function isThrottled(outcome: PublishOutcome): boolean {
  return outcome.kind === 'failed' && outcome.retryable && outcome.reason === MessageFailureReason.Throttled;
}

/** What a broker does in bad times, short of being away. */
export const trouble = theme('trouble', [
  check(
    'credentials that are refused: not ready, nothing sent, and the log says why',
    ['createRefused'],
    async (stage) => {
      const transport = await stage.refused();
      await transport.connect();
      await transport.logged.until('the refusal is logged', (lines) => lines.some(({ level }) => level !== 'debug'));
      assert.equal(transport.transport.ready(), false);
      const batch = messagesTo(stage.destination(), 2);
      const outcomes = await transport.publish(batch);
      assert.deepEqual(outcomes.map(describeOutcome), ['notAttempted', 'notAttempted']);
      const text = transport.logged.items.map((line) => line.text).join('\n');
      assert.match(text, /refuse|unauthor|authenticat|credential|denied/i);
      if (stage.fixture.secret !== undefined)
        assert.ok(!text.includes(stage.fixture.secret), 'the log keeps the secret');
    },
  ),

  check('a broker that throttles: told as such, nothing lost, and order kept', ['throttle'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service: stage.service(), destination });
    const batch = interleaved(destination, 4, 3);
    await stage.throttle(async () => {
      // The first word of it may come with the first message only.
      const outcomes = await transport.publish(batch);
      const told = outcomes.some(isThrottled) || !transport.transport.ready();
      assert.ok(told, `outcomes: ${outcomes.map(describeOutcome).join(', ')}, and the transport calls itself ready`);
      assertNothingConfirmed(outcomes, batch);
    });
    await Promise.all(
      [...new Set(batch.map(({ streamId }) => streamId))].map((stream) =>
        publishSteadily(
          transport,
          batch.filter(({ streamId }) => streamId === stream),
        ),
      ),
    );
    const arrived = () => firstArrivals(receiver.acceptedIds);
    await receiver.accepted.until('all arrive', () => arrived().length === batch.length);
    assertStreamsInOrder(arrived(), batch);
  }),

  check(
    'an unknown outcome is not confirmed, not final, and a second try keeps the order',
    ['stall'],
    async (stage) => {
      const destination = stage.destination();
      const transport = await stage.transport();
      const receiver = await stage.receive(transport, { service: stage.service(), destination });
      const batch = messagesTo(destination, 10, { stream: newStream() });
      await stage.stall(async () => assertNothingConfirmed(await transport.publish(batch), batch));
      await publishSteadily(transport, batch);
      const arrived = () => firstArrivals(receiver.acceptedIds);
      await receiver.accepted.until('all arrive', () => arrived().length === batch.length);
      assertSequence(arrived(), batch);
    },
  ),

  check('what is taken back in mid-handling comes again, in order', ['takeBack', 'orderedStreams'], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const hold = stage.hold();
    const receiver = await stage.receive(transport, {
      service: stage.service(),
      destination,
      maxBatch: 5,
      prefetch: 10,
      handle: (_, call) => (call === 2 ? hold.wait() : undefined),
    });
    const batch = messagesTo(destination, 40, { stream: newStream() });
    await publishSteadily(transport, batch);
    await receiver.handed.until('a second call', () => receiver.calls.length === 2);
    await stage.takeBack(receiver.request);
    hold.release();
    const arrived = () => firstArrivals(receiver.acceptedIds);
    await receiver.accepted.until('all arrive', () => arrived().length === batch.length);
    assertSequence(arrived(), batch);
    assert.equal(receiver.mostAtOnce, 1, 'calls at the same time');
    // Nothing is stuck behind it.
    const next = messageTo(destination);
    await publishSteadily(transport, [next]);
    await receiver.accepted.until('the next arrives', () => receiver.acceptedIds.includes(next.messageId));
  }),

  check(
    'a limit that is met in the middle of a batch is a matter of that message',
    ['maxMessageBytes'],
    async (stage) => {
      const destination = stage.destination();
      const transport = await stage.transport();
      const receiver = await stage.receive(transport, { service: stage.service(), destination });
      const limit = stage.fixture.capabilities.maxMessageBytes ?? 0;
      const large = () => Buffer.from(JSON.stringify('x'.repeat(limit - 2)));
      const over = () => Buffer.from(JSON.stringify('x'.repeat(limit)));
      // Each fits by itself and no two fit together, so a batch of them has to be cut; and one in the middle fits nowhere.
      const batch = [large(), large(), over(), large(), large()].map((body) => messageTo(destination, { body }));
      const outcomes = await transport.publish(batch);
      const expected = ['confirmed', 'confirmed', 'failed MessageBodyTooLarge', 'confirmed', 'confirmed'];
      assert.deepEqual(outcomes.map(describeOutcome), expected);
      await receiver.accepted.untilCount(4);
      assertAllConfirmed(await transport.publish(messagesTo(destination, 1)), [messageTo(destination)]);
    },
  ),
]);
