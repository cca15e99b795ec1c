// `npm run test:mutants`: puts one deliberate defect at a time into the sources, and expects the test that is named for it to fail.
// Every file is put back, also when this is interrupted. With a text (`npm run test:mutants -- fencing`) only the defects whose name holds it.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { root } from './bootstrap.mjs';
import { bootstrapAndBuild } from './build.mjs';

const core = 'packages/core/src';

const mutants = [
  {
    name: 'ack before store',
    file: `${core}/receiver/receiver.ts`,
    replace: [
      ['      await this.#store(deliveries);\n', '      void this.#store(deliveries).catch(() => undefined);\n'],
    ],
    caughtBy: ['test/scenario/stored-before-acknowledged.test.ts', 'what could not be stored is not acknowledged'],
  },
  {
    name: 'no fencing',
    file: 'sql/functions/complete_outbox_published.sql',
    replace: [[' and o.instance_id = p_instance_id and o.attempts = d.attempts', '']],
    caughtBy: ['test/sql/settlements.test.ts', 'when another instance holds the row'],
  },
  {
    name: 'attempts not given back',
    file: 'sql/functions/release_outbox.sql',
    replace: [['attempts = o.attempts - 1', 'attempts = o.attempts']],
    caughtBy: ['test/sql/settlements.test.ts', 'has its attempt given back when it is released'],
  },
  {
    name: 'prefix rule off',
    file: 'sql/functions/claim_orphaned_outbox.sql',
    replace: [['where h.stream_id is null or c.sequence < h.sequence', 'where true']],
    caughtBy: ['test/sql/claim-prefix.test.ts', 'the head is leased by another instance'],
  },
  {
    name: 'doorbell without the second look',
    file: `${core}/wakeups/sleeper.ts`,
    replace: [["this.#state = { kind: 'armed', horizon, waitMs: 5 };", "this.#state = { kind: 'parked' };"]],
    caughtBy: [
      'test/scenario/transactions.test.ts',
      'a transaction that stays open while the publisher falls asleep is published at its commit',
    ],
  },
  {
    name: 'completion before confirm',
    file: `${core}/publisher/publish-batch.ts`,
    replace: [
      [
        'const outcomes = await outcomesOf(transport, outgoing, signal);',
        "void outcomesOf(transport, outgoing, signal);\n  const outcomes = outgoing.map((): PublishOutcome => ({ kind: 'confirmed' }));",
      ],
    ],
    caughtBy: ['test/scenario/overlapping-batches.test.ts', 'a failure stops what follows it'],
  },
  {
    name: 'cap off by one',
    file: `${core}/failure/failure-judge.ts`,
    replace: [['row.attempts > maxAttempts', 'row.attempts > maxAttempts + 1']],
    caughtBy: [`${core}/failure/failure-judge.test.ts`, 'given up without a try'],
  },
  {
    name: 'recovery without budget',
    file: `${core}/dead-letters/recovery-step.ts`,
    replace: [['entry.recoveryAttempts >= policy.maxRecoveryAttempts + entry.grantedAttempts', 'false']],
    caughtBy: ['test/failure/recovery-worker.test.ts', 'one that has spent its budget stays'],
  },
  {
    name: 'purge of unprocessed rows',
    file: 'sql/functions/purge_completed_messages.sql',
    replace: [
      ['where o.processed_at < clock_timestamp()', 'where coalesce(o.processed_at, o.created_at) < clock_timestamp()'],
    ],
    caughtBy: ['test/operations/maintenance.test.ts', 'forgets received ids and completed rows that are old enough'],
  },
  {
    name: 'error text unbounded',
    file: `${core}/failure/failure-text.ts`,
    replace: [['const maxLength = 4_000;', 'const maxLength = 100_000_000;']],
    caughtBy: ['test/failure/hostile-errors.test.ts', 'whatever a handler throws is recorded, bounded and masked'],
  },
];

const run = (script, ...args) =>
  spawnSync(process.execPath, [join(root, script), ...args], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });

/** Builds what stands there now, and whether the test passes on it. */
function passes([file, name]) {
  const steps = [run('scripts/generate-sql.mjs'), run('node_modules/typescript/bin/tsc', '-b')];
  const broken = steps.find(({ status }) => status !== 0);
  if (broken !== undefined) throw new Error(`It does not build:\n${broken.stdout}${broken.stderr}`);
  const escaped = name.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`);
  const { status, stdout } = run('node_modules/vitest/vitest.mjs', 'run', file, '-t', escaped, '--reporter=json');
  const { numPassedTests, numFailedTests } = JSON.parse(stdout.slice(stdout.indexOf('{"num')));
  if (numPassedTests + numFailedTests === 0) throw new Error(`"${name}" is no test of ${file}.`);
  return status === 0;
}

function mutated(source, replacements, file) {
  let text = source;
  for (const [what, by] of replacements) {
    if (!text.includes(what)) throw new Error(`${file} does not hold "${what}" any more.`);
    text = text.replaceAll(what, by);
  }
  return text;
}

bootstrapAndBuild();
const chosen = mutants.filter(({ name }) => name.includes(process.argv[2] ?? ''));
let failed = 0;
for (const { name, file, replace, caughtBy } of chosen) {
  const path = join(root, file);
  const source = readFileSync(path, 'utf8');
  const putBack = () => writeFileSync(path, source);
  const interrupted = () => {
    putBack();
    process.exit(130);
  };
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  let verdict;
  try {
    const sound = passes(caughtBy);
    writeFileSync(path, mutated(source, replace, file));
    verdict = !sound ? 'its test fails without it' : passes(caughtBy) ? 'nobody noticed' : undefined;
  } catch (error) {
    verdict = error.message;
  } finally {
    putBack();
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
  }
  console.log(
    verdict === undefined ? `✓ ${name}: caught by "${caughtBy[1]}" (${caughtBy[0]})` : `✗ ${name}: ${verdict}`,
  );
  if (verdict !== undefined) failed += 1;
}
// What is built is what stands there.
run('scripts/generate-sql.mjs');
run('node_modules/typescript/bin/tsc', '-b');
console.log(`${chosen.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
