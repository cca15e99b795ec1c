import { afterAll, beforeAll, describe, test } from 'vitest';
import { applies, isTrouble } from './check.js';
import { conformanceChecks } from './checks.js';
import type { TransportFixture } from './fixture.js';

/** Runs every check that says something about the transport, in each of its modes. */
export function describeTransport(name: string, fixtures: readonly TransportFixture[]): void {
  for (const fixture of fixtures) {
    describe(`${name} (${fixture.mode})`, () => {
      beforeAll(() => fixture.open?.());
      afterAll(() => fixture.close?.());
      // Longer than any wait inside, so that the check itself says what did not happen.
      const timeout = 4 * (fixture.deadlineMs ?? 10_000);
      const checks = conformanceChecks.filter((check) => applies(check, fixture));
      for (const theme of new Set(checks.map((check) => check.theme))) {
        describe(`${theme}`, () => {
          for (const check of checks.filter((candidate) => candidate.theme === theme)) {
            // Names at the broker are each check's own; only trouble at the broker and the handles of the process are everybody's.
            const run = check.alone || isTrouble(check) ? test : test.concurrent;
            run(`${check.name}`, { timeout }, () => check.run(fixture));
          }
        });
      }
    });
  }
}
