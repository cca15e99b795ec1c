import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { defineMessage } from '../contract/message-definition.js';
import { resolveOptions } from './whizbang-options.js';

const least = { service: 'orders', database: 'postgres://db/orders', broker: 'memory:' };
const problemsOf = (options: object): string[] => {
  try {
    resolveOptions({ ...least, ...options });
    return [];
  } catch (error) {
    const [title, ...problems] = (error as Error).message.split('\n- ');
    expect(title).toBe(`The options of createWhizbang have ${problems.length} problem(s):`);
    expect(error).toMatchObject({ code: 'WHIZBANG_CONFIGURATION' });
    return problems;
  }
};

test('the least that must be said gives the documented defaults', () => {
  expect(resolveOptions(least)).toMatchObject({
    schema: 'whizbang',
    leaseSeconds: 60,
    publisher: { enabled: true, batchSize: 500, batchBytes: 4 * 1024 * 1024, retainCompleted: false },
    receiver: { parallel: false, batchSize: 200, prefetch: 500, unhandled: 'deadLetter' },
    dispatcher: { concurrency: 8, batchSize: 200, retainCompleted: false, maxLeaseRenewals: 30 },
    wakeups: { listen: true, safetyPollMs: 10_000, fallbackPollMs: 250 },
    stopTimeoutMs: 10_000,
    messages: [],
  });
});

test('everything that is wrong is said at once, each with its path', () => {
  const problems = problemsOf({
    service: 'a b',
    database: 'mysql://db',
    broker: '',
    schema: 'x'.repeat(64),
    logger: { info: () => undefined },
    leaseSeconds: 0,
    publisher: { batchSize: 0, batchsize: 10 },
    receiver: { unhandled: 'ignore' },
    dispatcher: { concurrency: 1.5 },
    wakeups: { safetyPollMs: -1 },
    messages: [{}],
    unknown: 1,
  });
  const paths = problems.map((problem) => problem.slice(0, problem.indexOf(':')));
  expect(paths.toSorted()).toEqual(
    [
      'service',
      'database',
      'broker',
      'schema',
      'logger',
      'leaseSeconds',
      'publisher.batchSize',
      'publisher.batchsize',
      'receiver.unhandled',
      'dispatcher.concurrency',
      'wakeups.safetyPollMs',
      'messages.0',
      'unknown',
    ].toSorted(),
  );
});

describe('a problem is one clear sentence', () => {
  test.each<readonly [string, object, RegExp]>([
    ['an unknown option', { servce: 'x' }, /^servce: unknown option$/],
    ['an unknown option of a part', { wakeups: { poll: 1 } }, /^wakeups\.poll: unknown option$/],
    ['no URL and no pool', { database: 5 }, /^database: .*must be a PostgreSQL URL or a pg\.Pool/],
    ['a URL of another database', { database: 'mysql://u:s3cret@db' }, /^database: must begin with postgres:\/\//],
    ['a schema with a line break', { schema: 'a\nb' }, /^schema: must have 1 to 63 bytes and no control characters$/],
    ['an object that is no transport', { broker: { publish: 1 } }, /^broker: .*transport/],
  ])('%s', (_, options, sentence) => {
    const problems = problemsOf(options);
    expect(problems).toEqual([expect.stringMatching(sentence)]);
    expect(problems.join(' ')).not.toContain('s3cret');
  });
});

test('two definitions of one type are refused, the same definition twice is not', () => {
  const define = () => defineMessage('orders.placed', { schema: z.object({}), destination: 'orders' });
  const one = define();
  expect(problemsOf({ messages: [one, one] })).toEqual([]);
  expect(problemsOf({ messages: [one, define()] })).toEqual([`messages: 'orders.placed' is defined twice`]);
});
