import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

import { bootstrap, root } from './bootstrap.mjs';

/** Dependencies present and everything compiled, or this process ends with what is wrong. */
export function bootstrapAndBuild() {
  try {
    bootstrap();
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
  const started = performance.now();
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [tsc, '-b'], { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
  console.log(`Built in ${((performance.now() - started) / 1000).toFixed(1)} s.`);
}
