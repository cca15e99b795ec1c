// Puts the text of sql/ where core can import it, so that core needs no file access at run time, and freezes migrations.
//   node scripts/generate-sql.mjs           writes the module, adds checksums of new migrations
//   node scripts/generate-sql.mjs --check   writes nothing, fails when either is out of date
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const target = 'packages/core/src/database/sql.generated.ts';
const checksumsFile = 'sql/migrations/checksums.json';

// In the order in which migrate() applies them.
const kinds = [
  ['migration', 'sql/migrations'],
  ['function', 'sql/functions'],
  ['view', 'sql/views'],
];

const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const readIfThere = (path) => (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined);
// By code unit, not by locale: the order must be the same on every machine.
const byCodeUnit = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

function readSqlFiles() {
  return kinds.flatMap(([kind, folder]) => {
    if (!existsSync(join(root, folder))) return [];
    return readdirSync(join(root, folder))
      .filter((file) => file.endsWith('.sql'))
      .map((file) => ({
        kind,
        name: file.slice(0, -'.sql'.length),
        text: readFileSync(join(root, folder, file), 'utf8'),
      }))
      .toSorted((a, b) => byCodeUnit(a.name, b.name))
      .map((file) => ({ ...file, checksum: sha256(file.text) }));
  });
}

function findBadNames(migrations) {
  const problems = [];
  const numbers = new Map();
  for (const { name } of migrations) {
    if (!/^\d{4}_[a-z0-9_]+$/.test(name))
      problems.push(`sql/migrations/${name}.sql: a migration is named NNNN_name.sql.`);
    const number = name.slice(0, 4);
    if (numbers.has(number)) problems.push(`sql/migrations: ${numbers.get(number)} and ${name} have the same number.`);
    numbers.set(number, name);
  }
  return problems;
}

function findThawed(migrations, frozen) {
  const current = new Map(migrations.map(({ name, checksum }) => [`${name}.sql`, checksum]));
  return Object.entries(frozen)
    .filter(([file, checksum]) => current.get(file) !== checksum)
    .map(([file]) =>
      current.has(file)
        ? `sql/migrations/${file} has changed since it was frozen. Databases that have it will not get the change: add a new ` +
          `migration. (Never released? Then take its line out of ${checksumsFile} and run npm run generate:sql.)`
        : `sql/migrations/${file} is frozen in ${checksumsFile} but gone. Migrations are append-only.`,
    );
}

function quote(text) {
  // A carriage return in a template literal would be read back as a line feed.
  return `\`${text.replaceAll(/[\\`]|\$\{/g, String.raw`\$&`).replaceAll('\r', String.raw`\r`)}\``;
}

function render(files) {
  const entries = files.map(({ kind, name, checksum, text }) =>
    [
      '  {',
      `    kind: '${kind}',`,
      `    name: '${name}',`,
      `    checksum: '${checksum}',`,
      `    text: ${quote(text)},`,
      '  },',
    ].join('\n'),
  );
  return `// generated from sql/ by scripts/generate-sql.mjs

export interface SqlFile {
  readonly kind: 'migration' | 'function' | 'view';
  /** The file's name without its extension. */
  readonly name: string;
  /** SHA-256 of the text, in hexadecimal. */
  readonly checksum: string;
  readonly text: string;
}

/** Migrations, then functions, then views, each by name. */
export const sqlFiles: readonly SqlFile[] = [
${entries.join('\n')}
];
`;
}

function write(path, text) {
  if (readIfThere(path) === text) return;
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
  console.log(`Wrote ${path}.`);
}

const files = readSqlFiles();
const migrations = files.filter(({ kind }) => kind === 'migration');
const frozen = JSON.parse(readIfThere(checksumsFile) ?? '{}');
const generated = render(files);
const problems = [...findBadNames(migrations), ...findThawed(migrations, frozen)];
const unfrozen = migrations.filter(({ name }) => frozen[`${name}.sql`] === undefined);

if (process.argv.includes('--check')) {
  if (readIfThere(target) !== generated) problems.push(`${target} is stale: run npm run generate:sql and commit it.`);
  for (const { name } of unfrozen) {
    problems.push(`sql/migrations/${name}.sql is not in ${checksumsFile}: run npm run generate:sql and commit it.`);
  }
} else {
  write(target, generated);
  if (unfrozen.length > 0) {
    const added = Object.fromEntries(unfrozen.map(({ name, checksum }) => [`${name}.sql`, checksum]));
    const all = Object.entries({ ...frozen, ...added }).toSorted(([a], [b]) => byCodeUnit(a, b));
    write(checksumsFile, `${JSON.stringify(Object.fromEntries(all), null, 2)}\n`);
  }
}

for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;
