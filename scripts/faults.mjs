// `npm run test:faults -- --minutes 20 --seed 7 --broker RabbitMQ`: does faults to everything for so long. All are optional: a
// minute, a seed that nobody chose, and all transports. `--logs <folder>` keeps what was done and what the processes said.
import { randomInt } from 'node:crypto';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { root } from './bootstrap.mjs';
import { bootstrapAndBuild } from './build.mjs';
import { runInForeground } from './foreground.mjs';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(randomInt(2 ** 31)) },
    broker: { type: 'string' },
    logs: { type: 'string' },
  },
});

bootstrapAndBuild();
process.exitCode = await runInForeground(
  join(root, 'node_modules/vitest/vitest.mjs'),
  ['run', '--project', 'integration', 'test/scenario/faults/faults.test.ts'],
  {
    ...process.env,
    WHIZBANG_FAULTS_MINUTES: values.minutes,
    WHIZBANG_FAULTS_SEED: values.seed,
    ...(values.broker === undefined ? {} : { WHIZBANG_FAULTS_BROKER: values.broker }),
    ...(values.logs === undefined ? {} : { WHIZBANG_FAULTS_LOGS: resolve(values.logs) }),
  },
);
