import assert from 'node:assert/strict';
import type { OutgoingMessage } from '@whizbang/core/transport';
import { assertAllConfirmed, assertOutcomes, assertSameSet, describeOutcome } from '../assertions.js';
import { check, theme } from '../check.js';
import { interleaved, messageTo, messagesTo, newStream } from '../messages.js';
import { idsOf, type Stage } from '../stage.js';

const unroutable = 'failed TransportNotReady retryable';
const tooLarge = 'failed MessageBodyTooLarge';

function oversize(stage: Stage): Buffer {
  return Buffer.from(JSON.stringify('x'.repeat(stage.fixture.capabilities.maxMessageBytes ?? 0)));
}

type Means = 'maxMessageBytes' | 'reportsUnroutable';

/** A message that the transport must fail, and what it is to be reported as. */
function failing(stage: Stage, means: Means, destination: string, stream: string | null): [OutgoingMessage, string] {
  return means === 'maxMessageBytes'
    ? [messageTo(destination, { stream, body: oversize(stage) }), tooLarge]
    : [messageTo(destination, { stream, type: 'nobody.wants.it' }), unroutable];
}

export const refusals = theme('refusals', [
  check(
    'a message that no service receives is reported, its neighbours are confirmed',
    ['reportsUnroutable'],
    async (stage) => {
      const destination = stage.destination();
      const drain = await stage.drain(destination);
      const transport = await stage.transport();
      const types = [
        'conformance.happened',
        'nobody.wants.it',
        'conformance.happened',
        'conformance.happened',
        'nobody.wants.it.either',
      ];
      const batch = types.map((type) => messageTo(destination, { type, stream: newStream() }));
      assertOutcomes(await transport.publish(batch), ['confirmed', unroutable, 'confirmed', 'confirmed', unroutable]);
      await drain.accepted.untilCount(3);
    },
  ),

  check(
    'a destination that nobody has bound is unroutable',
    ['reportsUnroutable', 'createsTopology'],
    async (stage) => {
      const transport = await stage.transport();
      const batch = messagesTo(stage.destination('unbound'), 2);
      assertOutcomes(await transport.publish(batch), [unroutable, unroutable]);
      // Nor has it done any harm to what is published next.
      const bound = stage.destination();
      await stage.drain(bound);
      const next = messagesTo(bound, 2);
      assertAllConfirmed(await transport.publish(next), next);
    },
  ),

  check(
    'what was unroutable is confirmed once a service receives it',
    ['reportsUnroutable', 'createsTopology'],
    async (stage) => {
      const destination = stage.destination();
      const transport = await stage.transport();
      const batch = messagesTo(destination, 1, { stream: newStream() });
      assertOutcomes(await transport.publish(batch), [unroutable]);
      const receiver = await stage.receive(transport, { service: stage.service(), destination });
      assertAllConfirmed(await transport.publish(batch), batch);
      await receiver.accepted.untilCount(1);
      assertSameSet(receiver.acceptedIds, batch);
    },
  ),

  check('without reports of the unroutable, such a message is confirmed', ['!reportsUnroutable'], async (stage) => {
    const destination = stage.destination();
    await stage.drain(destination);
    const transport = await stage.transport();
    const batch = messagesTo(destination, 2, { type: 'nobody.wants.it' });
    assertAllConfirmed(await transport.publish(batch), batch);
  }),

  check(
    'a body over the limit fails for good, its neighbours are confirmed',
    ['maxMessageBytes', 'inspect'],
    async (stage) => {
      const destination = stage.destination();
      const broker = await stage.inspect(destination);
      const transport = await stage.transport();
      const small = messagesTo(destination, 5);
      const large = messageTo(destination, { body: oversize(stage) });
      const batch = [...small.slice(0, 2), large, ...small.slice(2)];
      const confirmed = 'confirmed';
      assertOutcomes(await transport.publish(batch), [confirmed, confirmed, tooLarge, confirmed, confirmed, confirmed]);
      await broker.untilCount(small.length);
      await transport.close();
      assertSameSet(idsOf(broker.items), small);
    },
  ),

  check('a body of exactly the limit is confirmed', ['maxMessageBytes'], async (stage) => {
    const destination = stage.destination();
    const receiver = await stage.drain(destination);
    const transport = await stage.transport();
    const limit = stage.fixture.capabilities.maxMessageBytes ?? 0;
    const batch = [messageTo(destination, { body: Buffer.from(JSON.stringify('x'.repeat(limit - 2))) })];
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.accepted.untilCount(1);
    assert.equal(receiver.accepted.items[0]?.body.length, limit);
  }),

  ...(['maxMessageBytes', 'reportsUnroutable'] as const).map((means) =>
    check(`a failure stops the rest of its stream and no other (${means})`, [means, 'atomicGroups'], async (stage) => {
      const destination = stage.destination();
      const receiver = await stage.drain(destination);
      const transport = await stage.transport();
      const [a, b] = [newStream(), newStream()];
      const [message, outcome] = failing(stage, means, destination, a);
      const [a1, a3, a4] = messagesTo(destination, 3, { stream: a });
      const [b1, b2] = messagesTo(destination, 2, { stream: b });
      const free = messageTo(destination);
      assert.ok(a1 && a3 && a4 && b1 && b2);
      const outcomes = await transport.publish([b1, a1, message, a3, b2, free, a4]);
      const rest = 'notAttempted';
      assertOutcomes(outcomes, ['confirmed', 'confirmed', outcome, rest, 'confirmed', 'confirmed', rest]);
      await receiver.accepted.untilCount(4);
      // The stream is not stopped for ever; and had its rest been sent, it would be in front of this.
      assertAllConfirmed(await transport.publish([a3, a4]), [a3, a4]);
      await receiver.accepted.untilCount(6);
      assertSameSet(receiver.acceptedIds, [a1, b1, b2, free, a3, a4]);
    }),
  ),

  ...(['maxMessageBytes', 'reportsUnroutable'] as const).map((means) =>
    check(`messages without a stream stop nobody (${means})`, [means], async (stage) => {
      const destination = stage.destination();
      await stage.drain(destination);
      const transport = await stage.transport();
      const [message, outcome] = failing(stage, means, destination, null);
      const outcomes = await transport.publish([messageTo(destination), message, messageTo(destination)]);
      assertOutcomes(outcomes, ['confirmed', outcome, 'confirmed']);
    }),
  ),

  check('an aborted signal sends nothing', [], async (stage) => {
    const destination = stage.destination();
    const receiver = await stage.drain(destination);
    const transport = await stage.transport();
    const batch = messagesTo(destination, 3);
    const outcomes = await transport.publish(batch, AbortSignal.abort());
    assert.deepEqual(
      outcomes.map(describeOutcome),
      batch.map(() => 'notAttempted'),
    );
    const later = messagesTo(destination, 1);
    assertAllConfirmed(await transport.publish(later), later);
    await receiver.accepted.untilCount(1);
    assertSameSet(receiver.acceptedIds, later);
  }),

  check('an abort on the way leaves each message confirmed or not attempted', [], async (stage) => {
    const destination = stage.destination();
    const receiver = await stage.drain(destination);
    const transport = await stage.transport();
    const batch = interleaved(destination, 20, 50);
    const abort = new AbortController();
    const publishing = transport.publish(batch, abort.signal);
    setImmediate(() => abort.abort());
    const outcomes = await publishing;
    assert.equal(outcomes.length, batch.length);
    assert.deepEqual(outcomes.filter(({ kind }) => kind === 'failed').map(describeOutcome), []);
    const confirmed = batch.filter((_, position) => outcomes[position]?.kind === 'confirmed');
    // Published behind them, so that everything that was sent has arrived before it.
    const last = messagesTo(destination, 1);
    assertAllConfirmed(await transport.publish(last), last);
    await receiver.accepted.untilCount(confirmed.length + 1);
    assertSameSet(receiver.acceptedIds, [...confirmed, ...last]);
  }),
]);
