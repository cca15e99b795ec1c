import { spawn } from 'node:child_process';

import { root } from './bootstrap.mjs';

/** Runs a Node script with this terminal as its own, hands it the signals, and outlives it. Resolves to its exit code. */
export function runInForeground(script, args, env = process.env) {
  const child = spawn(process.execPath, ['--enable-source-maps', script, ...args], {
    cwd: root,
    env,
    stdio: 'inherit',
  });

  // A terminal sends Ctrl-C to the child as well, a supervisor signals this process alone. Either way the child gets it once,
  // stops its own services, and only then does this process return: nothing is left running when the prompt comes back.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (!(signal === 'SIGINT' && process.stdin.isTTY)) child.kill(signal);
    });
  }

  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      resolve(code ?? { SIGINT: 130, SIGTERM: 143 }[signal] ?? 1);
    });
  });
}
