import { mkdir, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

type Row = Readonly<Record<string, string | number>>;

/** Prints a table and writes `bench/results/<name>.json`, with what the numbers were measured on. */
export async function report(name: string, rows: readonly Row[], remarks: readonly string[] = []): Promise<void> {
  console.table(
    rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, rounded(value)]))),
  );
  for (const remark of remarks) console.log(remark);
  const machine = {
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    kernel: release(),
    node: process.version,
  };
  const folder = new URL('../results/', import.meta.url);
  await mkdir(folder, { recursive: true });
  const file = new URL(`${name}.json`, folder);
  await writeFile(
    file,
    `${JSON.stringify({ name, measuredAt: new Date().toISOString(), machine, rows, remarks }, null, 2)}\n`,
  );
  console.log(`written to ${fileURLToPath(file)}`);
}

function rounded(value: string | number): string | number {
  return typeof value === 'number' ? Number(value.toPrecision(4)) : value;
}
