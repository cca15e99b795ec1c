import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

import { describe, expect, test } from 'vitest';

const packages = fileURLToPath(new URL('../../packages/', import.meta.url));
const core = join(packages, 'core/src');
const adapters = ['transport-rabbitmq', 'transport-kafka', 'transport-servicebus'];

/** From the ground up. What stands on one floor may be imported from those above it, and by nobody beside it. */
const floors: readonly (readonly string[])[] = [
  ['errors', 'contract', 'adapter', 'failure', 'options', 'database', 'runtime', 'telemetry'],
  ['outbox', 'inbox', 'wakeups', 'maintenance', 'dead-letters', 'operations', 'testing', 'transports'],
  ['publisher', 'receiver', 'dispatcher'],
  ['.'],
];
// On the ground floor and in the store rooms above it, folders share; rooms where work is done never do.
const roomsApart = ['publisher', 'receiver', 'dispatcher', 'maintenance', 'wakeups', 'outbox', 'inbox'];
// In-process transport and registry: the one is an adapter that lives in core, the other imports it when it is asked for.
const exceptions = ['transports/transport-registry.ts → testing/in-process-transport.ts'];

interface Import {
  readonly from: string;
  readonly specifier: string;
}

function sourcesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/\.(test|generated)\.ts$/.test(file))
    .map((file) => join(folder, file));
}

function importsOf(file: string): Import[] {
  const text = readFileSync(file, 'utf8');
  const statements = text.matchAll(/(?:\bfrom\s+|\bimport\s*\(?\s*)'([^']+)'/g);
  return [...statements].map(([, specifier = '']) => ({ from: file, specifier }));
}

/** Without comments: they may speak of what the code must not do. */
function codeOf(file: string): string {
  return readFileSync(file, 'utf8')
    .replaceAll(/\/\*[\s\S]*?\*\//g, '')
    .replaceAll(/(^|\s)\/\/.*$/gm, '$1');
}

const inCore = (file: string) => relative(core, file).split(sep).join('/');
const folderOf = (file: string) => (file.includes('/') ? (file.split('/')[0] ?? '') : '.');
const floorOf = (file: string) => floors.findIndex((folders) => folders.includes(folderOf(file)));

const coreImports = sourcesIn(core)
  .flatMap(importsOf)
  .filter(({ specifier }) => specifier.startsWith('.'))
  .map(({ from, specifier }) => ({
    from: inCore(from),
    to: inCore(resolve(dirname(from), specifier.replace(/\.js$/, '.ts'))),
  }));
const written = ({ from, to }: { from: string; to: string }) => `${from} → ${to}`;

describe('core', () => {
  test('has a floor for every folder', () => {
    expect(coreImports.length).toBeGreaterThan(100);
    const folders = new Set(sourcesIn(core).map((file) => folderOf(inCore(file))));
    expect([...folders].filter((folder) => !floors.flat().includes(folder))).toEqual([]);
  });

  test('imports point down only', () => {
    const up = coreImports.filter(({ from, to }) => floorOf(to) > floorOf(from));
    expect(up.map(written)).toEqual([]);
  });

  test('rooms on one floor do not import each other', () => {
    const aside = coreImports.filter(({ from, to }) => {
      const [room, other] = [folderOf(from), folderOf(to)];
      return room !== other && floorOf(from) === floorOf(to) && roomsApart.includes(room);
    });
    expect(aside.map(written)).toEqual([]);
  });

  test('the contract and the errors know nothing above them', () => {
    const out = coreImports.filter(
      ({ from, to }) =>
        ['contract', 'errors'].includes(folderOf(from)) && !['contract', 'errors'].includes(folderOf(to)),
    );
    expect(out.map(written)).toEqual([]);
  });

  test('what ships for tests is used by nothing that ships for applications', () => {
    const used = coreImports.filter(
      ({ from, to }) => folderOf(to) === 'testing' && folderOf(from) !== 'testing' && from !== 'testing.ts',
    );
    expect(used.map(written)).toEqual(exceptions);
  });

  test('only the clock tells time and sets timers', () => {
    const allowed = [
      'runtime/clock.ts',
      'runtime/wake-signal.ts',
      'runtime/lease-keeper.ts',
      // Part of the in-process transport: like every adapter it waits by itself.
      'testing/in-process-subscription.ts',
    ];
    const timers = /\bDate\.now\(|\bnew Date\(\)|\bset(Timeout|Interval)\(|\bperformance\.now\(/;
    const naked = sourcesIn(core)
      .map(inCore)
      .filter((file) => !allowed.includes(file) && timers.test(codeOf(join(core, file))));
    expect(naked).toEqual([]);
  });

  test('changes rows through SQL functions only', () => {
    const changes = /\bupdate\s+\$?\{?["\w]|\bdelete\s+from\b|\binsert\s+into\b/i;
    const files = sourcesIn(core)
      .map(inCore)
      .filter((file) => changes.test(codeOf(join(core, file))));
    // Its own list of what it has applied.
    expect(files).toEqual(['database/migrate.ts']);
  });
});

describe.each(adapters)('%s', (name) => {
  test('imports @whizbang/core/transport and nothing else of Whizbang', () => {
    const files = sourcesIn(join(packages, name, 'src'));
    const ours = files.flatMap(importsOf).filter(({ specifier }) => specifier.startsWith('@whizbang/'));
    expect(new Set(ours.map(({ specifier }) => specifier))).toEqual(
      new Set(ours.length === 0 ? [] : ['@whizbang/core/transport']),
    );
    const outside = files
      .flatMap(importsOf)
      .filter(
        ({ from, specifier }) =>
          specifier.startsWith('.') && !resolve(dirname(from), specifier).startsWith(join(packages, name)),
      );
    expect(outside).toEqual([]);
  });
});

test('no file in a package is named for what does not say what it does', () => {
  const vague = /(^|[/.-])(utils?|helpers?|common|lib|misc|manager)([/.-]|$)/;
  const named = ['core', ...adapters]
    .flatMap((name) => sourcesIn(join(packages, name, 'src')))
    .map((file) => relative(packages, file).split(sep).join('/'))
    .filter((file) => vague.test(file));
  expect(named).toEqual([]);
});

test('there are no default exports in packages', () => {
  const files = ['core', ...adapters].flatMap((name) => sourcesIn(join(packages, name, 'src')));
  expect(files.filter((file) => /^export default\b/m.test(codeOf(file)))).toEqual([]);
});

test('no application names a broker: what examples and scenarios run on is the connection string alone', () => {
  const repository = fileURLToPath(new URL('../../', import.meta.url));
  const scenario = ['orders.ts', 'producer.process.ts', 'service.process.ts', 'stream-traffic.ts', 'ledger.ts'];
  const applications = [
    ...sourcesIn(join(repository, 'examples/src')),
    ...scenario.map((file) => join(repository, 'test/scenario', file)),
  ];
  expect(applications.length).toBeGreaterThan(12);
  // Comments too.
  const named = applications.filter((file) => /rabbit|amqp|kafka|service.?bus|azure/i.test(readFileSync(file, 'utf8')));
  expect(named).toEqual([]);
});
