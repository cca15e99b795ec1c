import { setTimeout as delay } from 'node:timers/promises';
import {
  assertAllConfirmed,
  assertNothingConfirmed,
  assertSameSet,
  assertSequence,
  assertStreamsInOrder,
  firstArrivals,
} from '../assertions.js';
import { check, theme } from '../check.js';
import { messagesTo, newStream } from '../messages.js';
import { publishSteadily } from '../publish-steadily.js';

export const longAbsence = theme('a minute away', [
  check(
    'nothing is confirmed meanwhile, nothing is lost, and work goes on by itself',
    ['absence', 'durable', 'orderedStreams'],
    async (stage) => {
      const destination = stage.destination();
      const [publisher, consumer] = [await stage.transport(), await stage.transport()];
      const receiver = await stage.receive(consumer, { service: stage.service(), destination });
      const before = messagesTo(destination, 20, { stream: newStream() });
      assertAllConfirmed(await publisher.publish(before), before);
      let isBack = false;
      const coming = stage.absence(60_000).then(() => (isBack = true));
      coming.catch(() => undefined);
      await publisher.untilReady(false);
      const during = messagesTo(destination, 20, { stream: before[0]?.streamId ?? null });
      assertNothingConfirmed(await publisher.publish(during), during);
      // As core does not, but another might: what comes of it after the return is only sent again below.
      while (!isBack) {
        await publisher.publish(during);
        await delay(500);
      }
      await coming;
      await publishSteadily(publisher, during);
      const arrived = () => firstArrivals(receiver.acceptedIds);
      await receiver.accepted.until('all arrive', () => arrived().length === before.length + during.length);
      assertSequence(arrived(), [...before, ...during]);
    },
  ),
]);

export const restart = theme('restart', [
  check(
    'a killed broker has lost nothing that was confirmed, and work goes on',
    ['restart', 'durable', 'fanOut'],
    async (stage) => {
      const destination = stage.destination();
      const [waiting, flowing] = [stage.service('waiting'), stage.service('flowing')];
      const [publisher, consumer] = [await stage.transport(), await stage.transport()];
      await (await stage.receive(consumer, { service: waiting, destination })).close();
      const receiver = await stage.receive(consumer, { service: flowing, destination, maxBatch: 10, prefetch: 20 });

      const before = messagesTo(destination, 50, { stream: newStream() });
      assertAllConfirmed(await publisher.publish(before), before);
      const during = messagesTo(destination, 100, { stream: newStream() });
      const publishing = publishSteadily(publisher, during);
      publishing.catch(() => undefined);
      await receiver.accepted.untilCount(before.length + 20);
      await stage.restart();
      await publishing;

      const all = [...before, ...during];
      const waited = await stage.subscribe(await stage.transport(), { service: waiting, destination });
      for (const { accepted } of [receiver, waited]) {
        const ids = (): string[] => firstArrivals(accepted.items.map(({ attributes }) => attributes['id'] ?? 'no id'));
        await accepted.until('all arrive', () => ids().length === all.length);
        if (stage.fixture.capabilities.orderedStreams) assertStreamsInOrder(ids(), all);
        else assertSameSet(ids(), all);
      }
    },
  ),
]);
