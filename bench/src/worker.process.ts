// One contender's worker at its work. Says when what was waiting is through, and goes on until SIGTERM when nothing was.
import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { setTimeout as delay } from 'node:timers/promises';

import pg from 'pg';

import type { Job } from './contenders/contender.js';
import { type ContenderKey, contenderOf } from './contenders/index.js';
import { Tally } from './tally.js';

/** What the parent asks for. */
export interface WorkerTask extends Job {
  readonly contender: ContenderKey;
}

/** What is told at the end. Times are milliseconds of the epoch. */
export interface WorkerResult {
  /** After the first messages were through. */
  readonly first: { readonly at: number; readonly count: number };
  readonly last: { readonly at: number; readonly count: number };
  /** When the table was empty, too. */
  readonly settledAt: number;
  readonly missing: number;
  readonly duplicates: number;
  readonly outOfOrder: number;
  readonly cpuSeconds: number;
  readonly maxRssBytes: number;
}

// The fixture turns them on, and packages that ship maps pay for it with every error that they make on their way.
process.setSourceMapsEnabled(false);

const task = JSON.parse(process.env['BENCH_TASK'] ?? '{}') as WorkerTask;
const contender = contenderOf(task.contender);
const { count } = task;
const now = (): number => performance.timeOrigin + performance.now();
const say = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);

const tally = new Tally(count, task.streams);
let first: WorkerResult['first'] | undefined;
let through = 0;
/** How many were through when. */
const progress: { at: number; through: number }[] = [];
let finish = (): void => undefined;
const finished = new Promise<void>((resolve) => {
  finish = resolve;
});
const advance = (more: number): void => {
  through += more;
  const at = now();
  first ??= { at, count: through };
  if (count === 0) progress.push({ at, through });
  if (through === count) finish();
};
const worker = await contender.worker(task, {
  through: advance,
  saw: (sequence) => {
    tally.add(sequence);
    advance(1);
  },
});
process.on('SIGUSR2', () => {
  const { user, system } = process.cpuUsage();
  say({ cpuSeconds: (user + system) / 1e6, through, progress, rss: process.memoryUsage().rss });
});
process.once('SIGTERM', () => void worker.stop().then(() => process.exit(0)));
const stopProfile = await profile();
await worker.start();
say({ started: true, pid: process.pid });
if (count > 0) {
  await finished;
  const last = { at: now(), count: through };
  await settled();
  const { user, system } = process.cpuUsage();
  const result: WorkerResult = {
    first: first ?? last,
    last,
    settledAt: now(),
    ...(tally.distinct === 0 ? { missing: 0, duplicates: 0, outOfOrder: 0 } : tally.arrivals()),
    cpuSeconds: (user + system) / 1e6,
    maxRssBytes: process.resourceUsage().maxRSS * 1024,
  };
  await stopProfile();
  say({ result });
}

/** A CPU profile of the work alone, in the folder that WHIZBANG_BENCH_PROFILE names. */
async function profile(): Promise<() => Promise<void>> {
  const folder = process.env['WHIZBANG_BENCH_PROFILE'];
  if (folder === undefined) return async () => undefined;
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.start');
  return async () => {
    const { profile: recorded } = await session.post('Profiler.stop');
    writeFileSync(`${folder}/${task.contender}-${process.pid}.cpuprofile`, JSON.stringify(recorded));
  };
}

async function settled(): Promise<void> {
  const client = new pg.Client({ connectionString: task.database });
  await client.connect();
  for (;;) {
    const { rows } = await client.query<{ pending: number }>(contender.pending);
    if (rows[0]?.pending === 0) break;
    await delay(5);
  }
  await client.end();
}
