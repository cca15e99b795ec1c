// Makes the dependencies present. Plain Node without imports from node_modules: it runs on a fresh clone.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));
const stampFile = join(root, 'node_modules/.whizbang-installed');

/** Installs what pnpm-lock.yaml says unless node_modules is in step with it. Throws an Error whose message is for people. */
export function bootstrap() {
  requireNode();
  const wanted = fingerprint();
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === wanted) return;

  const started = performance.now();
  const [command, ...prefix] = pnpmCommand();
  console.log(`Installing dependencies with ${[command, ...prefix].join(' ')} …`);
  const result = spawnSync(command, [...prefix, 'install', '--frozen-lockfile', '--reporter=append-only'], {
    cwd: root,
    encoding: 'utf8',
    // CI=true: pnpm must never stop to ask whether it may replace a node_modules folder.
    env: { ...process.env, CI: 'true' },
    shell: process.platform === 'win32',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (result.error !== undefined || result.status !== 0) throw new Error(explain(result));
  writeFileSync(stampFile, wanted);
  console.log(`Installed dependencies in ${((performance.now() - started) / 1000).toFixed(1)} s.`);
}

/** The command line that is pnpm at the pinned version: the one on PATH if it is that, else npm fetches it. */
export function pnpmCommand() {
  const pin = pinnedPnpm();
  const found = spawnSync('pnpm', ['--version'], {
    // Outside the checkout, so that a pnpm of another version answers with its own and does not try to become the pinned one.
    cwd: fileURLToPath(new URL('/', import.meta.url)),
    encoding: 'utf8',
    shell: process.platform === 'win32',
  });
  return found.status === 0 && found.stdout.trim() === pin ? ['pnpm'] : ['npx', '-y', `pnpm@${pin}`];
}

function requireNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  throw new Error(`Whizbang needs Node 20.19 or newer; this is Node ${process.versions.node}.`);
}

function pinnedPnpm() {
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return packageManager.slice('pnpm@'.length).split('+')[0];
}

function fingerprint() {
  const hash = createHash('sha256').update(`${process.platform} ${process.arch}\n`);
  for (const name of ['pnpm-lock.yaml', 'pnpm-workspace.yaml', 'package.json', ...workspaceManifests()]) {
    hash.update(name).update(readFileSync(join(root, name)));
  }
  return hash.digest('hex');
}

function workspaceManifests() {
  const folders = readdirSync(join(root, 'packages'))
    .sort()
    .map((name) => join('packages', name));
  return [...folders, 'test', 'bench', 'examples']
    .map((folder) => join(folder, 'package.json'))
    .filter((name) => existsSync(join(root, name)));
}

function explain({ error, stdout, stderr }) {
  const output = `${stdout ?? ''}${stderr ?? ''}`.trim();
  if (error !== undefined) return `Could not start the package manager: ${error.message}`;
  if (/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ERR_PNPM_META_FETCH_FAIL/.test(output)) {
    return `${output}\n\nCould not reach the package registry. The first run needs the network to install dependencies; later runs do not.`;
  }
  if (output.includes('ERR_PNPM_OUTDATED_LOCKFILE')) {
    return `${output}\n\npnpm-lock.yaml is behind a package.json: run \`pnpm install\` and commit the lockfile.`;
  }
  return `${output}\n\nInstalling dependencies failed.`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    bootstrap();
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
