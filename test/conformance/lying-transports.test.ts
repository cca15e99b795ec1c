import { describe, expect, test } from 'vitest';
import { type ConformanceCheck, applies, isTrouble } from './check.js';
import { conformanceChecks } from './checks.js';
import { lyingFixture } from './lying-fixture.js';
import { lyingTransports } from './lying-transports.js';
import type { TransportFixture } from './fixture.js';

/** Runs the whole suite, as far as it can at the same time, and names the checks that failed. */
async function violations(makeFixture: () => TransportFixture): Promise<string[]> {
  const shared = makeFixture();
  const checks = conformanceChecks.filter((check) => applies(check, shared));
  const failed: string[] = [];
  const run = async (check: ConformanceCheck, fixture: TransportFixture): Promise<void> => {
    await check.run(fixture).catch(() => failed.push(check.name));
  };
  // First, while nothing of a liar is about.
  for (const check of checks.filter(({ alone }) => alone)) await run(check, shared);
  // Every check has names of its own at the broker, but trouble is everybody's.
  const fixtureFor = (check: ConformanceCheck): TransportFixture => (isTrouble(check) ? makeFixture() : shared);
  await Promise.all(checks.filter(({ alone }) => !alone).map((check) => run(check, fixtureFor(check))));
  return failed;
}

describe('the suite', () => {
  test('has a name of its own for every check', () => {
    const names = conformanceChecks.map(({ theme, name }) => `${theme}: ${name}`);
    expect(new Set(names).size).toBe(names.length);
  });

  test('finds nothing wrong with an honest transport, all checks at the same time', async () => {
    expect(await violations(() => ({ ...lyingFixture(() => ({})), deadlineMs: 10_000 }))).toEqual([]);
  });

  for (const { lie, caughtBy, make } of lyingTransports) {
    test(`catches a transport that ${lie}`, async () => {
      expect(await violations(() => lyingFixture(make))).toEqual(expect.arrayContaining([...caughtBy]));
    });
  }
});
