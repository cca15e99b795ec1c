import { createRequire } from 'node:module';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

import type { Goal } from './goals.js';
import { type Chart, drawChart } from './plot.js';

export type Row = Readonly<Record<string, string | number>>;

export interface Report {
  readonly name: string;
  /** What is measured, and how. */
  readonly measures: string;
  readonly rows: readonly Row[];
  readonly goals: readonly Goal[];
  /** Sizes, repeats and each contender's settings. */
  readonly settings: Readonly<Record<string, string | number>>;
  readonly versions?: Readonly<Record<string, string>>;
  /** What a reader has to know, losses and doubles above all. */
  readonly remarks?: readonly string[];
  readonly chart: Chart;
}

const packages = ['amqplib', 'kafkajs', 'pg', 'pg-boss', 'graphile-worker', 'pg-transactional-outbox'];
const folder = new URL('../results/', import.meta.url);

/** Prints the tables and writes `bench/results/<name>.json` and `.svg`, with what the numbers were measured on. */
export async function report({ chart, ...content }: Report): Promise<void> {
  printTable(content.rows);
  if (content.goals.length > 0)
    printTable(content.goals.map(({ reached, ...goal }) => ({ ...goal, reached: reached ? 'yes' : 'NO' })));
  for (const remark of content.remarks ?? []) console.log(remark);
  const machine = {
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    kernel: release(),
    node: process.version,
  };
  const result = {
    ...content,
    measuredAt: new Date().toISOString(),
    machine,
    versions: { ...content.versions, ...(await packageVersions()) },
  };
  await mkdir(folder, { recursive: true });
  const file = new URL(`${content.name}.json`, folder);
  await writeFile(file, `${JSON.stringify(result, null, 2)}\n`);
  await writeFile(new URL(`${content.name}.svg`, folder), drawChart(chart));
  console.log(`written to ${fileURLToPath(file)}`);
}

function printTable(rows: readonly Row[]): void {
  console.table(
    rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, rounded(value)]))),
  );
}

async function packageVersions(): Promise<Record<string, string>> {
  // kafkajs comes with the fixtures.
  const places = [import.meta.url, new URL('../../test/package.json', import.meta.url)].flatMap(
    (from) => createRequire(from).resolve.paths('amqplib') ?? [],
  );
  const versions: Record<string, string> = {};
  for (const name of packages) {
    // Not every package exports its package.json.
    for (const place of places) {
      const text = await readFile(`${place}/${name}/package.json`, 'utf8').catch(() => undefined);
      if (text === undefined) continue;
      versions[name] = (JSON.parse(text) as { version: string }).version;
      break;
    }
  }
  return versions;
}

function rounded(value: string | number): string | number {
  return typeof value === 'number' ? Number(value.toPrecision(4)) : value;
}
