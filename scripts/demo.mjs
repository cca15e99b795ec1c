// `npm run demo`: from a fresh clone to the running demo.
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { root } from './bootstrap.mjs';
import { bootstrapAndBuild } from './build.mjs';
import { runInForeground } from './foreground.mjs';

const demo = join(root, 'examples/dist/demo/main.js');

bootstrapAndBuild();
if (!existsSync(demo)) {
  console.error('There is no demo to run: examples/src/demo/main.ts is missing.');
  process.exit(1);
}
process.exitCode = await runInForeground(demo, process.argv.slice(2));
