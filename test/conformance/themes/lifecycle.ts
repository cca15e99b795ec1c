import assert from 'node:assert/strict';
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { isWhizbangError, transportContractVersion } from '@whizbang/core/transport';
import { assertAllConfirmed, assertSequence, describeOutcome } from '../assertions.js';
import { check, theme } from '../check.js';
import { interleaved, messagesTo, newStream } from '../messages.js';
import { OpenedHandles } from '../opened-handles.js';
import { idsOf } from '../stage.js';

export const lifecycle = theme('lifecycle', [
  check('declares the version, a name and its capabilities', [], async (stage) => {
    const { transport } = await stage.transport();
    assert.equal(transport.contractVersion, transportContractVersion);
    assert.match(transport.name, /^[a-z][a-z0-9-]*$/);
    assert.deepEqual(transport.capabilities, stage.fixture.capabilities);
  }),

  check('is not ready before it connects, and nothing is sent', [], async (stage) => {
    const { transport } = await stage.unconnected();
    assert.equal(transport.ready(), false);
    const outcomes = await stage.within(
      'publish resolves',
      transport.publish(messagesTo(stage.destination(), 2), new AbortController().signal),
    );
    assert.deepEqual(outcomes.map(describeOutcome), ['notAttempted', 'notAttempted']);
  }),

  check('may be closed before it connects, and twice', [], async (stage) => {
    const transport = await stage.unconnected();
    await transport.close();
    await transport.close();
    assert.equal(transport.transport.ready(), false);
  }),

  check('may be closed twice, at the same time too', [], async (stage) => {
    const transport = await stage.transport();
    await Promise.all([transport.close(), transport.close()]);
    await transport.close();
    assert.equal(transport.transport.ready(), false);
  }),

  check('may be closed while it connects', [], async (stage) => {
    const transport = await stage.unconnected();
    const connecting = transport.connect().catch((error: unknown) => assert.ok(isWhizbangError(error)));
    await transport.close();
    await connecting;
    assert.equal(transport.transport.ready(), false);
  }),

  check('may be closed at any moment of connecting and subscribing', [], async (stage) => {
    const options = { service: stage.service(), destination: stage.destination() };
    const started = performance.now();
    await stage.receive(await stage.transport(), options);
    // On a busy machine it may take long once, and need not every time.
    const whole = Math.min(performance.now() - started, 60);
    const moments = 30;
    for (let moment = 0; moment < moments; moment += 1) {
      const transport = await stage.unconnected();
      await transport.connect();
      const subscribing = stage
        .subscribe(transport, options)
        .catch((error: unknown) => assert.ok(isWhizbangError(error)));
      await delay((whole * moment) / moments);
      await transport.close();
      await subscribing;
    }
  }),

  check('confirms nothing after close', [], async (stage) => {
    const destination = stage.destination();
    const receiver = await stage.drain(destination);
    const transport = await stage.transport();
    await transport.close();
    const outcomes = await transport.publish(messagesTo(destination, 2));
    assert.deepEqual(
      outcomes.map(({ kind }) => kind).filter((kind) => kind === 'confirmed'),
      [],
    );
    assert.equal(receiver.accepted.items.length, 0);
  }),

  check(
    'closing while it publishes settles the publish, and what is confirmed is at the broker',
    ['inspect'],
    async (stage) => {
      const destination = stage.destination();
      const broker = await stage.inspect(destination);
      const transport = await stage.transport();
      const batch = interleaved(destination, 100, 10);
      const publishing = transport.publish(batch);
      await transport.close();
      const outcomes = await publishing;
      assert.equal(outcomes.length, batch.length);
      const confirmed = batch.filter((_, position) => outcomes[position]?.kind === 'confirmed');
      await broker.until('all that is confirmed is at the broker', (items) => {
        const present = new Set(idsOf(items));
        return confirmed.every(({ messageId }) => present.has(messageId));
      });
    },
  ),

  check('closing waits for the handler that runs, and acknowledges what it accepts', [], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const transport = await stage.transport();
    const hold = stage.hold();
    const receiver = await stage.receive(transport, { service, destination, maxBatch: 5, handle: () => hold.wait() });
    const batch = messagesTo(destination, 10, { stream: newStream() });
    assertAllConfirmed(await transport.publish(batch), batch);
    await receiver.handed.untilCount(1);
    let closed = false;
    const closing = transport.close().then(() => (closed = true));
    await turn();
    assert.equal(closed, false, 'close resolved while the handler was running');
    hold.release();
    await closing;
    const first = receiver.acceptedIds.length;
    assert.ok(first > 0 && receiver.calls.length === 1, `${receiver.calls.length} calls, ${first} accepted`);
    const next = await stage.subscribe(await stage.transport(), { service, destination });
    await next.accepted.untilCount(batch.length - first);
    assertSequence([...receiver.acceptedIds, ...next.acceptedIds], batch);
  }),

  check('a closed subscription gets nothing more', ['fanOut'], async (stage) => {
    const destination = stage.destination();
    const service = stage.service();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service, destination });
    await receiver.close();
    await receiver.close();
    const other = await stage.receive(transport, { service: stage.service('other'), destination });
    const batch = messagesTo(destination, 5);
    assertAllConfirmed(await transport.publish(batch), batch);
    await other.accepted.untilCount(batch.length);
    assert.equal(receiver.handed.items.length, 0);
  }),

  check(
    'after close nothing of it keeps the process alive',
    ['fanOut'],
    async (stage) => {
      const destination = stage.destination();
      // What it has made routable stays so; a bystander with a connection would have handles that come and go.
      const bystander = await stage.transport();
      await stage.receive(bystander, { service: stage.service('drain'), destination });
      await bystander.close();
      using opened = new OpenedHandles();
      const transport = await stage.transport();
      const receiver = await stage.receive(transport, {
        service: stage.service(),
        destination,
        // A transport that pauses before it hands over again must not forget that timer.
        handle: () => Promise.reject(new Error('rejected by the check')),
      });
      const batch = messagesTo(destination, 20);
      assertAllConfirmed(await transport.publish(batch), batch);
      await receiver.handed.untilCount(1);
      await transport.close();
      const started = performance.now();
      // The event loop frees a closed socket some turns later, and there is no event for that.
      while (opened.list().length > 0 && performance.now() - started < 2_000) await turn();
      assert.deepEqual(opened.list(), [], 'open after close');
    },
    { alone: true },
  ),

  check('what no waiting can mend is refused, and without giving a secret away', ['malformed'], async (stage) => {
    for (const { why, create } of stage.fixture.malformed ?? []) {
      const attempt = async (): Promise<void> => {
        const transport = create();
        try {
          await transport.connect({
            logger: { debug() {}, info() {}, warn() {}, error() {} },
            onReadyChange: () => undefined,
          });
        } finally {
          await transport.close();
        }
      };
      await assert.rejects(
        stage.within(`${why} is refused`, attempt()),
        (error: unknown) => {
          assert.ok(isWhizbangError(error) && error.code === 'WHIZBANG_CONFIGURATION', `${why}: ${String(error)}`);
          const { secret } = stage.fixture;
          if (secret !== undefined)
            assert.ok(!`${error.message} ${error.stack}`.includes(secret), `${why}: the error tells a secret`);
          return true;
        },
        why,
      );
    }
  }),
]);
