import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];

test.each(pages)('the links of %s lead somewhere', (page) => {
  const targets = [...read(page).matchAll(/\]\((?!https?:)(?<target>[^)#\s]+)/g)].map(
    (link) => link.groups?.['target'],
  );
  const broken = targets.filter((target) => !existsSync(join(root, dirname(page), target ?? '')));
  expect(broken).toEqual([]);
});

test('each error code is documented', () => {
  const source = read('packages/core/src/errors/whizbang-error.ts');
  const codes = new Set(source.match(/WHIZBANG_[A-Z_]+/g));
  expect(codes.size).toBeGreaterThan(5);
  const documented = [...read('docs/errors-of-the-library.md').matchAll(/^## `(?<code>WHIZBANG_[A-Z_]+)`$/gm)];
  expect(new Set(documented.map((heading) => heading.groups?.['code']))).toEqual(codes);
});

test('each option of createWhizbang is documented, with its default', () => {
  const source = read('packages/core/src/options/whizbang-options.ts');
  const interfaces = source.slice(0, source.indexOf('const optionsSchema'));
  const names = [...interfaces.matchAll(/^ {2}readonly (?<name>\w+)\??:/gm)].map(
    (option) => option.groups?.['name'] ?? '',
  );
  const readme = read('README.md');
  expect(names.filter((name) => !new RegExp(`^\\| .*\\b${name}\\b.*\\|`, 'm').test(readme))).toEqual([]);
});

test('each metric is documented', () => {
  const source =
    read('packages/core/src/telemetry/instruments.ts') + read('packages/core/src/telemetry/backlog-gauges.ts');
  const metrics = [...source.matchAll(/'(?<name>whizbang\.[a-z_.]+)'/g)].map((metric) => metric.groups?.['name'] ?? '');
  expect(metrics.length).toBeGreaterThan(10);
  const readme = read('README.md');
  expect(metrics.filter((name) => !readme.includes(`\`${name}\``))).toEqual([]);
});
