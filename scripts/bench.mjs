// `npm run bench -- <name>`: installs and builds first, so that it measures the code as it is now.
import { join } from 'node:path';

import { root } from './bootstrap.mjs';
import { bootstrapAndBuild } from './build.mjs';
import { runInForeground } from './foreground.mjs';

bootstrapAndBuild();
process.exitCode = await runInForeground(join(root, 'bench/dist/index.js'), process.argv.slice(2));
