import { existsSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

// Starts the services that the integration tests share, once for all files.
const globalSetup = 'test/fixtures/global-setup.ts';

// Minutes each. Begun last, one of them would keep a worker busy long after the others have nothing left to do.
const slow = [
  'scenario/faults/faults',
  'conformance/servicebus',
  'scenario/killed-half-way',
  'conformance/rabbitmq',
  'scenario/broker-outage',
  'conformance/kafka',
  'scenario/many-streams',
  'examples',
  'transport-rabbitmq/trouble',
];

class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const first = slow.flatMap((name) => sorted.filter(({ moduleId }) => moduleId.endsWith(`/${name}.test.ts`)));
    return [...first, ...sorted.filter((file) => !first.includes(file))];
  }
}

export default defineConfig({
  test: {
    pool: 'forks',
    // The tests share one Postgres and one broker; more files at once than this measure the machine instead of the code.
    // With three of them two cores were busy for 89 % of the time.
    maxWorkers: 3,
    sequence: { sequencer: SlowFirst },
    retry: 0,
    server: { deps: { external: [/\/packages\/[^/]+\/dist\//] } },
    testTimeout: 60_000,
    hookTimeout: 180_000,
    projects: [
      {
        extends: true,
        test: { name: 'examples', include: ['examples/src/**/*.test.ts'] },
      },
      {
        extends: true,
        test: { name: 'packages', include: ['packages/*/src/**/*.test.ts'] },
      },
      {
        extends: true,
        test: {
          name: 'integration',
          include: ['test/**/*.test.ts'],
          exclude: ['**/dist/**', '**/node_modules/**'],
          globalSetup: existsSync(new URL(globalSetup, import.meta.url)) ? [globalSetup] : [],
        },
      },
    ],
  },
});
