// The tables of docs/performance.md, from bench/results/*.json, so that no number in them is typed by hand.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const mark = /<!-- results: ([a-z-]+) -->\n[\s\S]*?<!-- end of results -->/g;

function shown(value) {
  if (typeof value === 'boolean') return value ? 'yes' : '**no**';
  if (typeof value !== 'number') return String(value).replaceAll('|', String.raw`\|`);
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(4)));
}

function table(rows) {
  const [first] = rows;
  if (first === undefined) return '';
  const head = Object.keys(first);
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map((row) => line(head.map((key) => shown(row[key]))))].join(
    '\n',
  );
}

function section({ name, measures, measuredAt, machine, versions, settings, rows, goals, remarks }) {
  const list = (values) =>
    Object.entries(values)
      .map(([key, value]) => `${key} ${value}`)
      .join(', ');
  return [
    `![${name}](../bench/results/${name}.svg)`,
    `${measures[0].toUpperCase()}${measures.slice(1)}.`,
    table(rows),
    ...(goals.length > 0 ? [table(goals)] : []),
    ...(remarks?.length > 0 ? [remarks.map((remark) => `- ${remark}`).join('\n')] : []),
    `<details><summary>Measured ${measuredAt.slice(0, 10)} on ${machine.cores} cores (${machine.cpu}), ${machine.memoryGiB} GiB, kernel ${machine.kernel}, Node ${machine.node}</summary>`,
    ...(Object.keys(versions).length > 0 ? [`Versions: ${list(versions)}.`] : []),
    Object.entries(settings)
      .map(([key, value]) => `- ${key}: ${value}`)
      .join('\n'),
    '</details>',
  ].join('\n\n');
}

function summary(results) {
  const rows = results.flatMap(({ name, goals }) => goals.map((goal) => ({ bench: name, ...goal })));
  const reached = rows.filter((row) => row.reached).length;
  return `${reached} of ${rows.length} goals are reached in the runs that are committed.\n\n${table(rows)}`;
}

/** The page with what is between its marks written anew. */
export function withResults(root, page) {
  const folder = join(root, 'bench/results');
  const read = (name) => JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'));
  const names = readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -5));
  return page.replaceAll(mark, (_, name) => {
    const text =
      name === 'summary'
        ? summary(names.map(read))
        : existsSync(join(folder, `${name}.json`))
          ? section(read(name))
          : 'Not measured yet.';
    return `<!-- results: ${name} -->\n\n${text}\n\n<!-- end of results -->`;
  });
}
