// `npm run demo`: two services, a few hundred messages, a process killed on the way, and a summary that checks itself.
import { isWhizbangError } from '@whizbang/core';

import { runDemo } from './run-demo.js';

const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
const interrupted = new AbortController();

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    // Patience has an end: what is still running ends with this process, see Watchdog in test/fixtures.
    if (interrupted.signal.aborted) process.exit(exitCodes[signal]);
    process.exitCode = exitCodes[signal];
    print('\nStopping …');
    interrupted.abort();
  });
}
// Whoever read the output has gone, for example `head`.
process.stdout.on('error', () => interrupted.abort());

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

try {
  const checks = await runDemo(print, interrupted.signal);
  for (const { says, problem } of checks) {
    print(problem === undefined ? `  ✓ ${says}` : `  ✗ ${says}: ${problem}`);
  }
  const failed = checks.filter(({ problem }) => problem !== undefined).length;
  print(failed === 0 ? '\nEverything holds.' : `\n${failed} of ${checks.length} checks failed.`);
  process.exitCode = failed === 0 ? 0 : 1;
} catch (error) {
  if (!interrupted.signal.aborted) {
    process.exitCode = 1;
    print(`\nThe demo could not run to its end. ${sentenceOf(error)}`);
  }
}

function sentenceOf(error: unknown): string {
  if (isWhizbangError(error)) return error.message;
  if ((error as { code?: unknown }).code === '42501') {
    return `The demo makes a database of its own and the role of DATABASE_URL may not: ${(error as Error).message}. Leave DATABASE_URL out, or grant CREATEDB.`;
  }
  return error instanceof Error ? error.message : String(error);
}
