import { randomUUID } from 'node:crypto';

import {
  type DeadLetterFilter,
  DeadLetterRecoveryStatus,
  MessageFailureReason,
  OperatorDisposition,
  PermanentError,
  type Whizbang,
  defineMessage,
} from '@whizbang/core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/wait-for.js';
import { type OperatorsDatabase, type Row, insertRows, minutesAgo, operatorsDatabase, service } from './service.js';

const stream = '11111111-1111-4111-8111-111111111111';

let database: OperatorsDatabase;
beforeAll(async () => {
  database = await operatorsDatabase();
});
afterAll(() => database.close());
beforeEach(() => database.empty());

/** The calls need no started service: a command line has none. */
const operations = async () => (await service(database.url)).deadLetters;
const dead = (...rows: Row[]) => insertRows(database, 'wh_dead_letters', rows);

const picked: [string, DeadLetterFilter, Row][] = [
  ['reason', { reason: MessageFailureReason.ValidationError }, { failure_reason: 4 }],
  ['last reason', { lastReason: MessageFailureReason.Throttled }, { last_failure_reason: 8 }],
  ['type', { messageType: 'order-shipped' }, { message_type: 'order-shipped' }],
  ['stream', { streamId: stream }, { stream_id: stream }],
  ['destination', { destination: 'shipping' }, { destination: 'shipping' }],
  ['table', { sourceTable: 'wh_inbox' }, { source_table: 'wh_inbox' }],
  ['fingerprint', { fingerprint: '0123456789abcdef' }, { error_fingerprint: '0123456789abcdef' }],
  ['text, in any case', { text: 'No Such ORDER' }, { error_text: 'Error: no such order: 7' }],
  ['text with what LIKE would take for a pattern', { text: '100%_' }, { error_text: 'disk 100%_full' }],
  ['state', { status: DeadLetterRecoveryStatus.HoldForReview }, { recovery_status: 2 }],
  ['age, before', { before: minutesAgo(60) }, { dead_lettered_at: minutesAgo(90) }],
  ['age, since', { since: minutesAgo(-60) }, { dead_lettered_at: minutesAgo(-90) }],
  [
    'several at once',
    { reason: MessageFailureReason.ValidationError, messageType: 'order-shipped', text: 'order' },
    { failure_reason: 4, message_type: 'order-shipped', error_text: 'an order' },
  ],
];

describe('list and count', () => {
  test.each(picked)('pick by %s', async (_, filter, row) => {
    const [id] = await dead(
      { error_text: 'disk 100 full', ...row },
      { error_text: 'something else' },
      { failure_reason: 3, message_type: 'other' },
    );
    const calls = await operations();
    expect((await calls.list(filter)).entries.map((entry) => entry.deadLetterId)).toEqual([id]);
    expect(await calls.count(filter)).toBe(1);
  });

  test('leave out what is recovered, unless it is asked for', async () => {
    await dead({ recovered_at: minutesAgo(1), recovery_status: 3 }, {});
    const calls = await operations();
    expect(await calls.count()).toBe(1);
    expect(await calls.count({ includeRecovered: true })).toBe(2);
    expect((await calls.list({ includeRecovered: true })).entries).toHaveLength(2);
  });

  test.each([`x' or '1' = '1`, `'; drop table whizbang.wh_dead_letters; --`, `"`, '\\', '$1', '%'])(
    'take a filter for a value, whatever is in it: %s',
    async (value) => {
      await dead({}, {});
      const calls = await operations();
      for (const name of ['messageType', 'destination', 'fingerprint', 'text'] as const) {
        expect(await calls.count({ [name]: value })).toBe(0);
      }
      const [id] = await dead({ message_type: value });
      expect((await calls.list({ messageType: value })).entries.map((entry) => entry.deadLetterId)).toEqual([id]);
    },
  );

  test('page without a gap or a repetition while dead letters come and go', async () => {
    const ids = await dead(...Array.from({ length: 25 }, () => ({})));
    const calls = await operations();
    const seen: string[] = [];
    let after: string | undefined;
    let pages = 0;
    for (;;) {
      const page = await calls.list({}, { limit: 10, ...(after === undefined ? {} : { after }) });
      seen.push(...page.entries.map((entry) => entry.deadLetterId));
      pages += 1;
      if (page.next === null) break;
      after = page.next;
      // Behind the reader and in front of it: one that was read goes, one newer than all comes.
      await database.query('delete from whizbang.wh_dead_letters where dead_letter_id = $1', [seen[0]]);
      await dead({ dead_letter_id: `ffffffff-ffff-4fff-bfff-${randomUUID().slice(24)}` });
    }
    expect(pages).toBe(3);
    expect(seen).toEqual(ids.toSorted().toReversed());
  });

  test('say what a list needs', async () => {
    await dead({ stream_id: stream, error_text: 'no', error_fingerprint: '0123456789abcdef', last_failure_reason: 4 });
    const [entry] = (await (await operations()).list()).entries;
    expect(entry).toMatchObject({
      sourceTable: 'wh_outbox',
      streamId: stream,
      messageType: 'order-placed',
      destination: 'orders',
      failureReason: MessageFailureReason.MaxAttemptsExceeded,
      lastFailureReason: MessageFailureReason.ValidationError,
      errorText: 'no',
      errorFingerprint: '0123456789abcdef',
      attempts: 10,
      deadLetteredAt: expect.any(Date) as Date,
      generation: 'build-1',
      recoveryStatus: DeadLetterRecoveryStatus.Pending,
      recoveryAttempts: 0,
      recoverable: true,
    });
  });
});

describe('one dead letter', () => {
  test('is shown whole', async () => {
    const [readable, unreadable] = await dead(
      { envelope: '{"order":  1.0}', metadata: '{"correlationId":"c"}' },
      { envelope: null, raw_body: Buffer.from([0, 255]), failure_reason: 3 },
    );
    const calls = await operations();
    expect(await calls.show(readable ?? '')).toMatchObject({
      eventData: '{"order":  1.0}',
      rawBody: null,
      metadata: { correlationId: 'c' },
      recoverable: true,
    });
    expect(await calls.show(unreadable ?? '')).toMatchObject({
      eventData: null,
      rawBody: Buffer.from([0, 255]),
      recoverable: false,
    });
    expect(await calls.show(randomUUID())).toBeUndefined();
  });

  test('is held, given up and noted with the name of who did it', async () => {
    const [id = ''] = await dead({});
    const calls = await operations();
    expect(await calls.hold(id, 'ada')).toBe(true);
    expect(await calls.show(id)).toMatchObject({
      recoveryStatus: DeadLetterRecoveryStatus.HoldForReview,
      operatorDisposition: OperatorDisposition.HoldIndefinitely,
      operatorActor: 'ada',
    });
    expect(await calls.giveUp(id, 'grace')).toBe(true);
    expect(await calls.show(id)).toMatchObject({
      recoveryStatus: DeadLetterRecoveryStatus.PermanentlyFailed,
      operatorDisposition: OperatorDisposition.MarkPermanentlyFailed,
      operatorActor: 'grace',
    });
    expect(await calls.note(id, 'ada', `the customer's order`)).toBe(true);
    expect(await calls.note(id, 'grace', 'twice\0over')).toBe(true);
    const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`;
    expect((await calls.show(id))?.operatorNotes).toMatch(
      new RegExp(`^${time} ada: the customer's order\n${time} grace: twice\uFFFDover$`),
    );
    expect(await calls.note(randomUUID(), 'ada', 'nobody')).toBe(false);
  });

  test('keeps the newest notes when there are too many', async () => {
    const [id = ''] = await dead({ operator_notes: 'old '.repeat(25_000) });
    const calls = await operations();
    await calls.note(id, 'ada', 'the newest');
    const notes = (await calls.show(id))?.operatorNotes ?? '';
    expect(notes).toHaveLength(100_000);
    expect(notes.endsWith('ada: the newest')).toBe(true);
  });

  test('that is recovered is neither retried, held nor given up', async () => {
    const [id = ''] = await dead({ recovered_at: minutesAgo(1), recovery_status: 3 });
    const calls = await operations();
    expect([await calls.retry(id, 'ada'), await calls.hold(id, 'ada'), await calls.giveUp(id, 'ada')]).toEqual([
      false,
      false,
      false,
    ]);
  });

  test.each(['', ' \t'])('is not touched by somebody without a name: %j', async (nobody) => {
    const [id = ''] = await dead({});
    const calls = await operations();
    const before = await calls.show(id);
    for (const call of [
      calls.retry(id, nobody),
      calls.hold(id, nobody),
      calls.giveUp(id, nobody),
      calls.note(id, nobody, 'who was it?'),
    ]) {
      await expect(call).rejects.toThrow('actor must say who does it');
    }
    expect(await calls.show(id)).toEqual(before);
  });

  test('that could not be read is not retried', async () => {
    const [id = ''] = await dead({ envelope: null, raw_body: Buffer.from('?') });
    expect(await (await operations()).retry(id, 'ada')).toBe(false);
  });
});

const placed = defineMessage('order-placed', { schema: z.object({ order: z.number() }), destination: 'orders' });

/** A started service that handles `placed`, with dead letters of its inbox to bring back. */
async function desk(handle: () => Promise<void> | void): Promise<Whizbang> {
  const whizbang = await service(database.url, { failures: { breaker: { enabled: false } } });
  whizbang.handle(placed, handle);
  await whizbang.start();
  await waitFor(async () => (await whizbang.status()).elected, { message: 'the election' });
  return whizbang;
}
const inInbox = { source_table: 'wh_inbox', handler_name: 'order-placed', generation: '0' };
// Held by an operator: neither the policy nor a new generation brings it back while a test looks.
const held = { ...inInbox, recovery_status: 2, operator_disposition: 2 };

describe('a retry', () => {
  test.each<[string, Row]>([
    ['held for review', { recovery_status: 2 }],
    ['held by an operator', { recovery_status: 2, operator_disposition: 2 }],
    ['given up', { recovery_status: 4, operator_disposition: 3 }],
    ['past its budget', { recovery_attempts: 1, recovery_status: 2, failure_reason: 5 }],
    [
      'past the budget of another reason that it died of before',
      { recovery_attempts: 5, recovery_status: 2, failure_reason: 5 },
    ],
    ['of a reason without a budget', { failure_reason: 4, recovery_status: 2 }],
    ['in its cooldown', { next_recovery_at: minutesAgo(-300) }],
  ])('brings back what is %s', async (_, row) => {
    let handled = 0;
    const whizbang = await desk(() => void (handled += 1));
    const [id = ''] = await dead({ ...held, ...row, operator_disposition: row['operator_disposition'] ?? 2 });
    expect(await whizbang.deadLetters.retry(id, 'ada')).toBe(true);
    await waitFor(() => handled === 1, { message: 'the message to be handled' });
    expect(await whizbang.deadLetters.show(id)).toMatchObject({
      recoveryStatus: DeadLetterRecoveryStatus.Recovered,
      operatorActor: 'ada',
    });
  });

  test('and a new generation bring back even what is past the budget of another reason', async () => {
    await dead({
      ...inInbox,
      recovery_attempts: 5,
      recovery_status: 2,
      failure_reason: 5,
      generation: 'the build before',
    });
    let handled = 0;
    const whizbang = await desk(() => void (handled += 1));
    await waitFor(() => handled === 1, { message: 'the message to be handled' });
    expect(whizbang.deadLetterCounters.totalGenerationReplays).toBe(1);
  });

  test('grants one try and no more', async () => {
    let tries = 0;
    const whizbang = await desk(() => {
      tries += 1;
      throw new PermanentError('never');
    });
    const [id = ''] = await dead({ ...held, failure_reason: 5, recovery_attempts: 1 });
    await whizbang.deadLetters.retry(id, 'ada');
    await waitFor(
      async () => (await whizbang.deadLetters.show(id))?.recoveryStatus === DeadLetterRecoveryStatus.HoldForReview,
      { message: 'it to be held again' },
    );
    expect(tries).toBe(1);
    await whizbang.deadLetters.retry(id, 'ada');
    await waitFor(() => tries === 2, { message: 'one more' });
  });

  test('from another process wakes the elected one', async () => {
    let handled = 0;
    await desk(() => void (handled += 1));
    const [id = ''] = await dead(held);
    expect(await (await operations()).retry(id, 'ada')).toBe(true);
    await waitFor(() => handled === 1, { message: 'the message to be handled' });
  });
});

test('scanNow makes the elected instance look, from any process', async () => {
  let handled = 0;
  const whizbang = await desk(() => void (handled += 1));
  // By hand, so that nothing rings: it would be found by the scan in ten minutes.
  await waitFor(
    async () => (await database.query(`select 1 from whizbang.wh_doorbells where channel = 'deadletter'`)).length === 1,
    { message: 'the recovery worker to sleep' },
  );
  await dead({
    ...inInbox,
    generation: (await generation(whizbang)) ?? '',
    next_recovery_at: minutesAgo(1),
    granted_attempts: 1,
  });
  const scans = whizbang.deadLetterCounters.totalScans;
  await (await operations()).scanNow();
  await waitFor(() => handled === 1, { message: 'the message to be handled' });
  expect(whizbang.deadLetterCounters.totalScans).toBeGreaterThan(scans);
});

/** The build that this service tags dead letters with: none is replayed for its own. */
async function generation(whizbang: Whizbang): Promise<string | undefined> {
  const [id = ''] = await dead({ generation: 'none', recovery_status: 4 });
  return (await whizbang.deadLetters.show(id))?.generation;
}

describe('in bulk', () => {
  test('a dry run counts and changes nothing', async () => {
    await dead({}, {}, { message_type: 'other' });
    const before = await database.query('select * from whizbang.wh_dead_letters order by dead_letter_id');
    const calls = await operations();
    for (const call of ['retryAll', 'holdAll', 'giveUpAll'] as const) {
      expect(await calls[call]({ messageType: 'order-placed' }, { actor: 'ada', dryRun: true })).toEqual({
        matched: 2,
        changed: 0,
        stopped: false,
      });
    }
    expect(await database.query('select * from whizbang.wh_dead_letters order by dead_letter_id')).toEqual(before);
  });

  test('what matches is retried, and nothing else', async () => {
    let handled = 0;
    const whizbang = await desk(() => void (handled += 1));
    await dead(held, held, { ...held, message_type: 'other' });
    const result = await whizbang.deadLetters.retryAll({ messageType: 'order-placed' }, { actor: 'ada' });
    expect(result).toEqual({ matched: 2, changed: 2, stopped: false });
    await waitFor(() => handled === 2, { message: 'both to be handled' });
    expect(await whizbang.deadLetters.count()).toBe(1);
  });

  test.each([
    ['holdAll', DeadLetterRecoveryStatus.HoldForReview],
    ['giveUpAll', DeadLetterRecoveryStatus.PermanentlyFailed],
  ] as const)('%s reaches what matches', async (call, status) => {
    await dead({}, {}, { message_type: 'other' });
    const calls = await operations();
    expect(await calls[call]({ messageType: 'order-placed' }, { actor: 'ada' })).toEqual({
      matched: 2,
      changed: 2,
      stopped: false,
    });
    expect(await calls.count({ status })).toBe(2);
  });

  test('no second has more than its rate', async () => {
    await dead(...Array.from({ length: 12 }, () => ({})));
    const calls = await operations();
    const began = performance.now();
    expect(await calls.holdAll({}, { actor: 'ada', perSecond: 5 })).toMatchObject({ matched: 12, changed: 12 });
    expect(performance.now() - began).toBeGreaterThanOrEqual(2_000);
  });

  test('a signal ends it between two', async () => {
    await dead(...Array.from({ length: 10 }, () => ({})));
    const calls = await operations();
    const controller = new AbortController();
    const running = calls.holdAll({}, { actor: 'ada', perSecond: 0.01, signal: controller.signal });
    await waitFor(async () => (await calls.count({ status: DeadLetterRecoveryStatus.HoldForReview })) === 1, {
      message: 'the first to be held',
    });
    controller.abort();
    expect(await running).toEqual({ matched: 10, changed: 1, stopped: false });
    expect(await calls.retryAll({}, { actor: 'ada', signal: AbortSignal.abort() })).toMatchObject({ changed: 0 });
  });

  test.each([
    ['die again at once', () => new PermanentError('still broken')],
    ['fail and wait for their retry', () => new Error('still broken')],
  ])('it stops when too many %s', async (_, error) => {
    const whizbang = await desk(() => {
      throw error();
    });
    await dead(...Array.from({ length: 200 }, () => held));
    const result = await whizbang.deadLetters.retryAll({}, { actor: 'ada', perSecond: 20 });
    expect(result.stopped).toBe(true);
    expect(result.matched).toBe(200);
    // Looked at every second, after ten failures: it has tried some, and far from all.
    expect(result.changed).toBeLessThanOrEqual(100);
    const notTouched = await whizbang.deadLetters.count({ status: DeadLetterRecoveryStatus.HoldForReview });
    expect(notTouched).toBeGreaterThanOrEqual(100);
  });

  test('it goes on when few fail', async () => {
    let count = 0;
    const whizbang = await desk(() => {
      count += 1;
      if (count % 4 === 0) throw new PermanentError('one in four');
    });
    await dead(...Array.from({ length: 60 }, () => held));
    expect(await whizbang.deadLetters.retryAll({}, { actor: 'ada', perSecond: 30 })).toEqual({
      matched: 60,
      changed: 60,
      stopped: false,
    });
  });

  test.each([
    [{ actor: ' ' }, 'actor'],
    [{ actor: 'ada', perSecond: 0 }, 'perSecond'],
    [{ actor: 'ada', perSecond: Number.NaN }, 'perSecond'],
  ])('it refuses %j', async (options, named) => {
    await expect((await operations()).retryAll({}, options)).rejects.toThrow(named);
  });
});
