import { afterAll, beforeAll, describe, test } from 'vitest';
import { applies } from './check.js';
import { conformanceChecks } from './checks.js';
import type { TransportFixture } from './fixture.js';

/** Runs every check that says something about the transport, in each of its modes. */
export function describeTransport(name: string, fixtures: readonly TransportFixture[]): void {
  for (const fixture of fixtures) {
    describe(`${name} (${fixture.mode})`, () => {
      beforeAll(() => fixture.open?.());
      afterAll(() => fixture.close?.());
      const checks = conformanceChecks.filter((check) => applies(check, fixture));
      for (const theme of new Set(checks.map((check) => check.theme))) {
        describe(`${theme}`, () => {
          for (const check of checks.filter((candidate) => candidate.theme === theme)) {
            // oxlint-disable-next-line vitest/expect-expect -- a check rejects when it is violated
            test(`${check.name}`, () => check.run(fixture));
          }
        });
      }
    });
  }
}
