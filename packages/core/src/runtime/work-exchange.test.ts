import { expect, test } from 'vitest';
import { silentLogger } from '../contract/logger.js';
import type { ClaimRequest, ClaimResult, ClaimedMessage, Settlements } from '../contract/work.js';
import { Breakers } from '../failure/breakers.js';
import { InstanceIdentity } from './instance-identity.js';
import { OutageLog } from './outage-log.js';
import { WorkExchange } from './work-exchange.js';

interface Call {
  readonly holder: string;
  readonly settlements: Settlements;
  readonly claim: ClaimRequest;
}

const breakerOptions = { enabled: true, failureThreshold: 5, initialCooldownMs: 1000, maxCooldownMs: 1000 };
const row = (messageId: string) => ({ messageId, attempts: 1 });
const result = (claimed: readonly string[] = [], candidates = claimed.length): ClaimResult => ({
  claimed: claimed.map((messageId) => row(messageId) as ClaimedMessage),
  staleIds: [],
  deadIds: [],
  candidates,
  dueMs: null,
});

/** An exchange whose database answers with `answers`, in turn; one that is an error is thrown. */
function exchangeWith(answers: (ClaimResult | Error)[]) {
  const calls: Call[] = [];
  const identity = new InstanceIdentity();
  const intake = new AbortController();
  const work = new WorkExchange({
    exchange: async (holder, settlements, claim) => {
      calls.push({ holder, settlements: structuredClone(settlements), claim });
      const answer = answers.shift() ?? result();
      if (answer instanceof Error) throw answer;
      return answer;
    },
    identity,
    breakers: new Breakers('destination', breakerOptions, silentLogger),
    breakerKey: ({ destination }) => destination,
    maxBytes: 1000,
    leaseSeconds: 60,
    outage: new OutageLog(silentLogger, 'The test cannot use the database'),
    sleep: async () => undefined,
    signal: intake.signal,
    onSettled: () => undefined,
  });
  return { work, calls, identity, intake };
}

test('what is owed goes along with the claim', async () => {
  const { work, calls, identity } = exchangeWith([result(['b'])]);
  work.owed.add(identity.current, { completed: [row('a')] });
  const claim = await work.run(10);
  expect(claim).toMatchObject({ holder: identity.current, full: false, more: false });
  expect(claim.rows.map(({ messageId }) => messageId)).toEqual(['b']);
  expect(calls.map(({ settlements, claim: { limit } }) => [settlements.completed.length, limit])).toEqual([[1, 10]]);
});

test('nothing is claimed before all that is owed under any id has arrived', async () => {
  const { work, calls, identity } = exchangeWith([]);
  work.owed.add(identity.current, { released: [row('a')] });
  work.owed.add('an id of before', { released: [row('b')] });
  await work.run(10);
  expect(calls.map(({ holder, claim }) => [holder, claim.limit])).toEqual([
    [identity.current, 0],
    ['an id of before', 0],
    [identity.current, 10],
  ]);
});

test('after a lost answer, the settlement goes again under its id and the claim under a new one', async () => {
  const { work, calls, identity } = exchangeWith([new Error('connection lost')]);
  const before = identity.current;
  work.owed.add(before, { completed: [row('a')] });
  const claim = await work.run(10);
  expect(identity.current).not.toBe(before);
  expect(claim.holder).toBe(identity.current);
  expect(
    calls.map(({ holder, settlements, claim: { limit } }) => [holder, settlements.completed.length, limit]),
  ).toEqual([
    [before, 1, 10],
    [before, 1, 0],
    [identity.current, 0, 10],
  ]);
});

test('after looks that were full of rows nobody may take, it asks for them to be moved out of the way', async () => {
  const full = Array.from({ length: 8 }, () => result([], 10));
  const { work, calls } = exchangeWith([...full, result(['a'], 10)]);
  for (let look = 0; look < 10; look += 1) await work.run(10);
  const patient = Array.from({ length: 8 }, () => false);
  expect(calls.map(({ claim }) => claim.blockLeased)).toEqual([...patient, true, false]);
});

test('once stopping, it claims nothing, settles what it can, and keeps what it cannot', async () => {
  const { work, calls, identity, intake } = exchangeWith([]);
  intake.abort();
  work.owed.add(identity.current, { released: [row('a')] });
  expect((await work.run(10)).rows).toEqual([]);
  expect(calls.map(({ claim }) => claim.limit)).toEqual([0]);

  const away = exchangeWith(Array.from({ length: 9 }, () => new Error('away')));
  away.intake.abort();
  away.work.owed.add('me', { released: [row('a')] });
  await away.work.run(0);
  expect(away.calls).toHaveLength(3);
  expect(away.work.owed.size).toBe(1);
});
