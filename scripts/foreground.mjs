import { spawn } from 'node:child_process';

import { root } from './bootstrap.mjs';

const isWindows = process.platform === 'win32';

/** Runs a Node script on this terminal, hands it each signal once, and outlives it. Resolves to its exit code. */
export function runInForeground(script, args, env = process.env) {
  const child = spawn(process.execPath, ['--enable-source-maps', script, ...args], {
    cwd: root,
    env,
    stdio: 'inherit',
    // A group of its own, so that what a terminal sends to its whole group comes to the child through here only.
    detached: !isWindows,
  });

  // One Ctrl-C arrives here twice, from the terminal and from npm, and programs take a second one for impatience.
  const lastSent = new Map();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (performance.now() - (lastSent.get(signal) ?? -Infinity) < 300) return;
      lastSent.set(signal, performance.now());
      child.kill(signal);
    });
  }

  // npm runs this through a shell, and a shell that gets SIGTERM ends without telling us. Its death is the message then.
  const parent = process.ppid;
  const isUnderNpm = process.env.npm_lifecycle_event !== undefined;
  const watch = setInterval(() => {
    if (!isUnderNpm || isWindows || process.ppid === parent) return;
    clearInterval(watch);
    child.kill('SIGTERM');
  }, 250);

  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      clearInterval(watch);
      resolve(code ?? { SIGINT: 130, SIGTERM: 143 }[signal] ?? 1);
    });
  });
}
