import { setImmediate as turn } from 'node:timers/promises';
import type { OutgoingMessage, PublishOutcome } from '@whizbang/core/transport';
import type { Lie } from './lying-fixture.js';

export interface LyingTransport {
  readonly lie: string;
  /** Names of checks of which each must fail. */
  readonly caughtBy: readonly string[];
  /** One for each transport, as each has its own state. */
  readonly make: () => Lie;
}

const confirmed: PublishOutcome = { kind: 'confirmed' };

export const lyingTransports: readonly LyingTransport[] = [
  {
    lie: 'acknowledges before the handler has stored',
    caughtBy: [
      'a rejected batch comes again, in the same order, and nothing is lost',
      'what the closing instance rejects goes to the next, first and in order',
      'what the handler had not accepted when the connection broke comes again',
      'closing waits for the handler that runs, and acknowledges what it accepts',
    ],
    make: () => {
      let last = Promise.resolve();
      return {
        handle: async (deliveries, handler) => {
          last = last.then(() => handler(deliveries)).catch(() => undefined);
        },
      };
    },
  },
  {
    lie: 'drops every tenth message and calls it confirmed',
    caughtBy: [
      'every message of a batch of 1,000 reaches the broker once',
      'every message of a batch of 1,000 reaches the handler once',
      'nothing is lost across outages, and streams keep their order',
    ],
    make: () => {
      let count = 0;
      return {
        publish: async (honest, batch, signal) => {
          const kept = batch.map(() => (count += 1) % 10 !== 0);
          const outcomes = await honest(
            batch.filter((_, position) => kept[position]),
            signal,
          );
          return kept.map((sent) => (sent ? (outcomes.shift() ?? confirmed) : confirmed));
        },
      };
    },
  },
  {
    lie: 'swaps two messages of a stream',
    caughtBy: [
      'a stream in one batch keeps its order at the broker',
      'a stream in one batch keeps its order to the handler',
      'fifty streams in one batch keep theirs',
    ],
    make: () => ({
      publish: (honest, batch, signal) => {
        const swapped = [...batch];
        const [from, to] = [swapped.length - 2, swapped.length - 1];
        const partner = swapped.findLastIndex(({ streamId }, at) => at < to && streamId === swapped[to]?.streamId);
        const at = partner === -1 ? from : partner;
        if (at >= 0) [swapped[at], swapped[to]] = [swapped[to] as OutgoingMessage, swapped[at] as OutgoingMessage];
        return honest(swapped, signal);
      },
    }),
  },
  {
    lie: 'confirms first, sends later',
    caughtBy: [
      'publishing while the broker is away confirms nothing and does not hang',
      'what is confirmed does not depend on the transport any more',
    ],
    make: () => ({
      publish: async (honest, batch, signal) => {
        void turn().then(() => honest(batch, signal));
        return batch.map(() => confirmed);
      },
    }),
  },
  {
    lie: 'reports outcomes in another order',
    caughtBy: [
      'a body over the limit fails for good, its neighbours are confirmed',
      'a message that no service receives is reported, its neighbours are confirmed',
    ],
    make: () => ({
      publish: async (honest, batch, signal) => (await honest(batch, signal)).toReversed(),
    }),
  },
  {
    lie: 'calls the handler while a call of it runs',
    caughtBy: ['the handler is never called while a call of it runs'],
    make: () => ({
      handle: async (deliveries, handler) => {
        await Promise.all(deliveries.map((delivery) => handler([delivery])));
      },
    }),
  },
  {
    lie: 'goes on with a stream after a failure',
    caughtBy: ['a failure stops the rest of its stream and no other (maxMessageBytes)'],
    make: () => ({
      publish: async (honest, batch, signal) => {
        const outcomes: PublishOutcome[] = [];
        for (const message of batch) outcomes.push(...(await honest([message], signal)));
        return outcomes;
      },
    }),
  },
  {
    lie: 'fails the whole batch for one message',
    caughtBy: ['a body over the limit fails for good, its neighbours are confirmed'],
    make: () => ({
      publish: async (honest, batch, signal) => {
        const outcomes = await honest(batch, signal);
        const failure = outcomes.find(({ kind }) => kind === 'failed');
        return failure === undefined ? outcomes : outcomes.map(() => failure);
      },
    }),
  },
  {
    lie: 'calls the unroutable confirmed',
    caughtBy: ['a message that no service receives is reported, its neighbours are confirmed'],
    make: () => ({
      publish: async (honest, batch, signal) => {
        const outcomes = await honest(batch, signal);
        return outcomes.map((outcome) => (outcome.kind === 'failed' && outcome.retryable ? confirmed : outcome));
      },
    }),
  },
  {
    lie: 'ignores the abort signal',
    caughtBy: ['an aborted signal sends nothing'],
    make: () => ({ publish: (honest, batch) => honest(batch, new AbortController().signal) }),
  },
  {
    lie: 'gives a stream to all instances at once',
    caughtBy: ['of ordered instances, one at a time receives'],
    make: () => ({ ordered: false }),
  },
  {
    lie: 'is always ready',
    caughtBy: ['readiness is told, with its cause, and comes back by itself'],
    make: () => ({ ready: () => true }),
  },
  {
    lie: 'takes the body apart and puts it together again',
    caughtBy: ['JSON text that a parser would change'],
    make: () => ({
      publish: (honest, batch, signal) =>
        honest(
          batch.map((message) => ({
            ...message,
            body: Buffer.from(JSON.stringify(JSON.parse(message.body.toString()))),
          })),
          signal,
        ),
    }),
  },
  {
    lie: 'gives back the rejected in another order',
    caughtBy: ['a rejected batch comes again, in the same order, and nothing is lost'],
    make: () => {
      let rejected = false;
      return {
        handle: async (deliveries, handler) => {
          try {
            await handler(rejected ? deliveries.toReversed() : deliveries);
            rejected = false;
          } catch (error) {
            rejected = true;
            throw error;
          }
        },
      };
    },
  },
  {
    lie: 'leaves a timer behind',
    caughtBy: ['after close nothing of it keeps the process alive'],
    make: () => ({
      publish: (honest, batch, signal) => {
        setTimeout(() => undefined, 10_000);
        return honest(batch, signal);
      },
    }),
  },
];
