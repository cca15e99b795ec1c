// `npm test`: from a fresh clone to one line that says how many passed. With arguments (`npm test -- outbox`) it builds and
// gives them to vitest, without the static checks.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { bootstrap, root } from './bootstrap.mjs';
import { runInForeground } from './foreground.mjs';

const vitestArgs = process.argv.slice(2);
const bin = (path) => join(root, 'node_modules', path);
const node = (script, ...args) => {
  return () =>
    spawnSync(process.execPath, [script, ...args], { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
};

const staticStages = [
  ['format', node(bin('oxfmt/bin/oxfmt'), '--check')],
  ['lint', node(bin('oxlint/bin/oxlint'), '--deny-warnings')],
  ['unused code', node(bin('knip/bin/knip.js'))],
  ['generated SQL', node(join(root, 'scripts/generate-sql.mjs'), '--check')],
  ['generated docs', node(join(root, 'scripts/generate-docs.mjs'), '--check')],
];

const total = { passed: 0, failed: 0 };

function report(stage, started, failed) {
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`${failed ? '✗' : '✓'} ${stage.padEnd(16)} ${seconds.padStart(6)} s`);
}

function count(stage, run) {
  const started = performance.now();
  const { status, stdout, stderr, error } = run();
  const failed = status !== 0;
  if (failed) console.log(`${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}`.trimEnd());
  report(stage, started, failed);
  total[failed ? 'failed' : 'passed'] += 1;
  return !failed;
}

function install() {
  try {
    bootstrap();
    return { status: 0 };
  } catch (error) {
    return { status: 1, stdout: error.message };
  }
}

async function vitest() {
  const started = performance.now();
  const folder = mkdtempSync(join(tmpdir(), 'whizbang-test-'));
  try {
    const outputFile = join(folder, 'results.json');
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${outputFile}`];
    const exitCode = await runInForeground(bin('vitest/vitest.mjs'), ['run', ...reporters, ...vitestArgs]);
    addResults(outputFile, exitCode);
    report('tests', started, exitCode !== 0);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function addResults(outputFile, exitCode) {
  const failedBefore = total.failed;
  let results;
  try {
    results = JSON.parse(readFileSync(outputFile, 'utf8'));
  } catch {
    total.failed += 1;
    console.log(`vitest ended with ${exitCode} and without results.`);
    return;
  }
  total.passed += results.numPassedTests;
  total.failed += results.numFailedTests;
  // A file that fails to load has no tests to count; left out, it would pass in silence.
  total.failed += results.testResults.filter(
    (file) => file.status === 'failed' && file.assertionResults.length === 0,
  ).length;

  const skipped = results.numPendingTests + results.numTodoTests;
  if (skipped > 0) {
    const isCI = process.env.CI === 'true';
    console.log(`${skipped} skipped${isCI ? ', which counts as failed because CI=true' : ''}`);
    if (isCI) total.failed += skipped;
  }
  // Errors outside any test (an unhandled rejection, a failed set-up) show only in the exit code.
  if (exitCode !== 0 && total.failed === failedBefore) total.failed += 1;
}

// What is not installed or does not compile cannot be tested; every other stage runs whatever the ones before it said.
if (count('dependencies', install) && count('build', node(bin('typescript/bin/tsc'), '-b'))) {
  if (vitestArgs.length === 0) for (const [stage, run] of staticStages) count(stage, run);
  await vitest();
}

console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed === 0 ? 0 : 1;
