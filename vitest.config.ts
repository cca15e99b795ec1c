import { existsSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

// Starts the services that the integration tests share, once for all files.
const globalSetup = 'test/fixtures/global-setup.ts';

export default defineConfig({
  test: {
    pool: 'forks',
    // The tests share one Postgres and one broker; more files at once than this measure the machine instead of the code.
    maxWorkers: 2,
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
