import { mkdirSync } from 'node:fs';

import { expect, test } from 'vitest';

import { faultBrokers } from './brokers/index.js';
import { runFaults } from './run-faults.js';

// Set by `npm run test:faults`. Without it: a short run, always of the same seed.
const minutes = Number(process.env['WHIZBANG_FAULTS_MINUTES'] ?? 0.2);
const seed = Number(process.env['WHIZBANG_FAULTS_SEED'] ?? 1);
const only = process.env['WHIZBANG_FAULTS_BROKER'];
const logs = process.env['WHIZBANG_FAULTS_LOGS'];
const durationMs = minutes * 60_000;

const chosen = faultBrokers.filter(({ name }) => only === undefined || name === only);

test.each(chosen)(
  '$name: whatever is done to processes, database and broker, nothing is lost, invented, out of order or done twice',
  async (kind) => {
    if (logs !== undefined) mkdirSync(logs, { recursive: true });
    const { violations, faults, ...counts } = await runFaults(kind, {
      seed,
      durationMs,
      ...(logs === undefined ? {} : { logs }),
    });
    const timesOf = new Map<string, number>();
    for (const { name } of faults) timesOf.set(name, (timesOf.get(name) ?? 0) + 1);
    const summary = [...timesOf].map(([name, times]) => `  ${String(times).padStart(4)} ${name}`).toSorted();
    process.stdout.write(
      `${kind.name}, seed ${seed}, ${Math.round(durationMs / 1_000)} s: ${faults.length} faults, ${JSON.stringify(counts)}\n${summary.join('\n')}\n`,
    );
    const again = `npm run test:faults -- --broker "${kind.name}" --seed ${seed} --minutes ${minutes}`;
    expect(violations, `what was seen, again with: ${again}`).toEqual([]);
  },
  durationMs + 600_000,
);
