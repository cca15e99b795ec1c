import { expect, test } from 'vitest';

import type { DoneFault } from './schedule.js';
import { Evidence, judge } from './verdict.js';

const calmFrom = 10_000;
const kill: DoneFault = {
  name: 'SIGKILL',
  on: 'publisher-0',
  repeats: true,
  from: 2_000,
  to: 3_000,
  strikeMs: 0,
  undoMs: 0,
};
const moved: DoneFault = { ...kill, name: 'clock moved', repeats: false };

/** Two messages of one order, each published, handled and gone at its first try. `at`: when they were stored. */
function flawless(at = 1_000): Evidence {
  const evidence = new Evidence();
  for (const [index, messageId] of ['a', 'b'].entries()) {
    const number = index + 1;
    evidence.committed.set(messageId, { messageId, stream: 'order', number, at });
    evidence.outboxLives.set(messageId, { messageId, from: at, to: at + 1_500, attempts: 1 });
    evidence.inboxLives.set(messageId, { messageId, from: at, to: at + 1_500, attempts: 1 });
    evidence.handled = [...evidence.handled, { messageId, stream: 'order', number, attempt: 1, rolledBack: false }];
    evidence.seen = [...evidence.seen, seen(messageId, number)];
    evidence.tries = [...evidence.tries, { at: number, begins: messageId, attempt: 1 }];
  }
  evidence.accountSteps = 4;
  return evidence;
}

function seen(messageId: string, number: number, rolledBack = false): Evidence['seen'][number] {
  return { messageId, body: JSON.stringify({ order: 'order', number, rolledBack }) };
}

const kindsOf = (evidence: Evidence, done: readonly DoneFault[] = []): string[] =>
  judge(evidence, done, calmFrom).violations.map((violation) => violation.replace(/ \(.*/, ''));

test('there is nothing to say against a run without a flaw', () => {
  expect(kindsOf(flawless())).toEqual([]);
});

test.each<readonly [string, (evidence: Evidence) => void]>([
  [
    'lost',
    (evidence) => {
      evidence.handled = evidence.handled.slice(0, 1);
      evidence.inboxLives.delete('b');
      evidence.tries = evidence.tries.slice(0, 1);
      evidence.accountSteps = 2;
    },
  ],
  [
    'still waiting',
    ({ outboxLives }) => void outboxLives.set('b', { messageId: 'b', from: 1_000, to: null, attempts: 0 }),
  ],
  [
    'handled and dead',
    ({ dead }) => void dead.set('b', { messageId: 'b', table: 'wh_inbox', attempts: 10, error: '' }),
  ],
  [
    'never committed, and there',
    ({ inboxLives }) => void inboxLives.set('c', { messageId: 'c', from: 1, to: 2, attempts: 0 }),
  ],
  ['rolled back, and published', (evidence) => void (evidence.seen = [seen('a', 1, true), seen('b', 2)])],
  [
    'rolled back, and handled',
    (evidence) => void (evidence.handled = evidence.handled.map((one) => ({ ...one, rolledBack: true }))),
  ],
  ['never committed, and published', (evidence) => void (evidence.seen = [...evidence.seen, seen('c', 3)])],
  ['handled, and never published', (evidence) => void (evidence.seen = evidence.seen.slice(0, 1))],
  [
    'handled twice',
    (evidence) => {
      evidence.handled = [
        ...evidence.handled,
        { messageId: 'b', stream: 'order', number: 2, attempt: 1, rolledBack: false },
      ];
      evidence.accountSteps = 6;
    },
  ],
  ['effects', (evidence) => void (evidence.accountSteps = 5)],
  ['out of order in the handler', (evidence) => void (evidence.handled = evidence.handled.toReversed())],
  ['out of order at the broker', (evidence) => void (evidence.seen = evidence.seen.toReversed())],
  ['published again without a reason', (evidence) => void (evidence.seen = [...evidence.seen, seen('b', 2)])],
  [
    'attempts of the publisher',
    ({ outboxLives }) => void outboxLives.set('b', { messageId: 'b', from: 1_000, to: 2_500, attempts: 2 }),
  ],
  [
    'tries of the handler',
    (evidence) => void (evidence.tries = [...evidence.tries, { at: 3, begins: 'b', attempt: 1 }]),
  ],
  [
    'a failure was not counted',
    (evidence) => {
      evidence.inboxLives.set('b', { messageId: 'b', from: 1_000, to: 2_500, attempts: 2 });
      evidence.tries = [
        { at: 1, begins: 'a', attempt: 1 },
        { at: 2, begins: 'b', attempt: 1 },
        { at: 3, throws: 'b', attempt: 1, hopeless: false },
        { at: 4, begins: 'b', attempt: 1 },
      ];
    },
  ],
  [
    'handled, and never begun',
    (evidence) => void (evidence.handled = evidence.handled.map((one) => ({ ...one, attempt: 2 }))),
  ],
  [
    'dead before its time',
    (evidence) => {
      evidence.handled = evidence.handled.slice(0, 1);
      evidence.accountSteps = 2;
      evidence.dead.set('b', { messageId: 'b', table: 'wh_inbox', attempts: 1, error: 'the connection ended' });
    },
  ],
  ['held by two', (evidence) => void (evidence.stolen = ['wh_outbox: a was claimed while it was leased'])],
])('"%s" is seen', (kind, spoil) => {
  const evidence = flawless();
  spoil(evidence);
  expect(kindsOf(evidence)).toContain(kind);
});

test('a crash during its life explains a message that was published again, and its attempt', () => {
  const evidence = flawless();
  evidence.seen = [...evidence.seen, seen('b', 2)];
  evidence.outboxLives.set('b', { messageId: 'b', from: 1_000, to: 2_500, attempts: 2 });
  expect(kindsOf(evidence, [kill])).toEqual([]);
});

test.each([
  ['something that loses no outcome', [moved], 1_000],
  ['a crash before its life', [kill], 4_000],
  ['a crash, once all is calm', [{ ...kill, from: 2_000, to: 20_000 }], calmFrom],
] as const)('%s explains neither', (_, done, at) => {
  const evidence = flawless(at);
  evidence.seen = [...evidence.seen, seen('b', 2)];
  evidence.outboxLives.set('b', { messageId: 'b', from: at, to: at + 1_500, attempts: 2 });
  expect(kindsOf(evidence, done)).toEqual(['published again without a reason', 'attempts of the publisher']);
});
