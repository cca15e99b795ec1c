// `prepack` of each published package: brings in what lives once, at the top of the repository, and ships with all of them.
import { cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const packageFolder = process.cwd();
const root = join(packageFolder, '../..');

cpSync(join(root, 'LICENSE'), join(packageFolder, 'LICENSE'));

if (packageFolder === join(root, 'packages/core')) {
  const sql = join(packageFolder, 'sql');
  // Emptied first: a function that was renamed must not ship under its old name too.
  rmSync(sql, { recursive: true, force: true });
  if (existsSync(join(root, 'sql'))) cpSync(join(root, 'sql'), sql, { recursive: true });
}
