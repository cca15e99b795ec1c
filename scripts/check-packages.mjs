// Checks what users would install, not what lies in the checkout: packs every published package and looks at the tarballs.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { pnpmCommand, root } from './bootstrap.mjs';
import { bootstrapAndBuild } from './build.mjs';

const total = { passed: 0, failed: 0 };

function check(what, command, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    shell: process.platform === 'win32',
  });
  const passed = status === 0;
  total[passed ? 'passed' : 'failed'] += 1;
  console.log(`${passed ? '✓' : '✗'} ${what}`);
  if (!passed) console.log(`${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}`.trimEnd());
  return passed;
}

function checkContents(name, tarball) {
  const listing = spawnSync('tar', ['-tzf', tarball], { encoding: 'utf8' });
  const files = listing.stdout.split('\n');
  const wanted = ['README.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts'];
  const missing = wanted.filter((file) => !files.includes(`package/${file}`));
  const unwanted = files.filter((file) => /\.test\.|\.tsbuildinfo$/.test(file));
  const passed = missing.length === 0 && unwanted.length === 0;
  total[passed ? 'passed' : 'failed'] += 1;
  console.log(`${passed ? '✓' : '✗'} ${name}: contents`);
  if (!passed)
    console.log(
      `missing: ${missing.join(', ') || 'nothing'}; should not be in it: ${unwanted.join(', ') || 'nothing'}`,
    );
}

bootstrapAndBuild();

const temporary = mkdtempSync(join(tmpdir(), 'whizbang-packages-'));
try {
  const [pnpm, ...prefix] = pnpmCommand();
  const bin = (name) => join(root, 'node_modules/.bin', name);
  for (const folder of readdirSync(join(root, 'packages'))) {
    const packageFolder = join(root, 'packages', folder);
    const manifest = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8'));
    if (manifest.private === true) continue;

    const destination = join(temporary, folder);
    mkdirSync(destination);
    if (!check(`${manifest.name}: pack`, pnpm, [...prefix, 'pack', '--pack-destination', destination], packageFolder))
      continue;
    const tarball = join(destination, readdirSync(destination)[0]);
    checkContents(manifest.name, tarball);
    check(`${manifest.name}: publint`, bin('publint'), ['run', tarball, '--strict'], root);
    check(`${manifest.name}: types`, bin('attw'), [tarball, '--profile', 'esm-only'], root);
  }
} finally {
  rmSync(temporary, { recursive: true });
}

console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed === 0 ? 0 : 1;
