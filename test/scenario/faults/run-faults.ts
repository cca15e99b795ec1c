import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';

import { waitFor } from '../../fixtures/index.js';
import { databaseFaults } from './database-faults.js';
import type { FaultBrokerKind } from './fault-broker.js';
import { FaultScene } from './fault-scene.js';
import { inProcessFaults } from './in-process-faults.js';
import { networkFaults } from './network-faults.js';
import { processFaults } from './process-faults.js';
import { Random } from './random.js';
import { type DoneFault, type Pace, runSchedule } from './schedule.js';
import { Evidence, type Verdict, judge, readLeftovers } from './verdict.js';

export interface FaultRun extends Verdict {
  readonly faults: readonly DoneFault[];
  /** How long after the last fault everything that waited had been handled. */
  readonly drainedMs: number;
}

export interface FaultRunSettings {
  readonly seed: number;
  readonly durationMs: number;
  /** A folder for what the participants have said. Default: it is thrown away. */
  readonly logs?: string;
}

// In each of the two rows of faults that run at the same time.
const paces: { readonly short: Pace; readonly long: Pace } = {
  short: { pauseMs: [100, 600], lastsAtMostMs: 800, leavesOutSlow: true },
  long: { pauseMs: [500, 4_000], lastsAtMostMs: Infinity, leavesOutSlow: false },
};
const shortMs = 60_000;
const calmMs = 3_000;
const drainTimeoutMs = 120_000;
// A worker that hangs makes stop() wait for its deadline.
const stopTimeoutMs = 20_000;
const promptStopMs = 4_000;

/** Does faults to everything for a while, lets it come to rest, and compares what should be with what is. */
export async function runFaults(kind: FaultBrokerKind, settings: FaultRunSettings): Promise<FaultRun> {
  const random = new Random(settings.seed);
  const [toScene, toProcesses, toServers] = [random.fork(), random.fork(), random.fork()];
  await using scene = await FaultScene.start(kind, toScene);
  const faults: DoneFault[] = [];
  let drainedMs = -1;
  const wrong: string[] = [];
  let calmFrom = Infinity;
  try {
    await doFaults(scene, { ...settings, toProcesses, toServers, onDone: (done) => void faults.push(done) });
    const faultsEnded = performance.now();
    await Promise.all(scene.participants.map((participant) => participant.started()));
    await rest(scene);
    drainedMs = performance.now() - faultsEnded;
    // Whoever is still there has to do its work as if nothing had ever been.
    calmFrom = Date.now();
    await scene.launch('producer');
    await delay(calmMs);
    await rest(scene);
  } catch (error) {
    wrong.push(`did not come to rest: ${inspect(error)}`);
  }
  wrong.push(...(await stopAll(scene)));
  const verdict = judge(await Evidence.read(scene), faults, calmFrom);
  const violations = [...verdict.violations, ...wrong];
  if (settings.logs !== undefined) await writeLogs(scene, settings.logs, { faults, violations, calmFrom });
  return { ...verdict, violations, faults, drainedMs };
}

async function doFaults(
  scene: FaultScene,
  parts: FaultRunSettings & { toProcesses: Random; toServers: Random; onDone: (done: DoneFault) => void },
): Promise<void> {
  const { durationMs, onDone } = parts;
  const ending = new AbortController();
  const end = setTimeout(() => ending.abort(), durationMs);
  const pace = durationMs < shortMs ? paces.short : paces.long;
  const schedule = { pace, signal: ending.signal, onDone };
  const toServers = [
    ...databaseFaults,
    ...networkFaults({ to: 'database', gate: ({ gates }) => gates.database }),
    ...networkFaults({
      to: 'LISTEN',
      gate: ({ gates, role }) => (role === 'producer' ? undefined : gates.listen),
      dispensable: true,
    }),
    ...(scene.broker === undefined
      ? inProcessFaults
      : [...scene.broker.faults, ...networkFaults({ to: 'broker', gate: ({ gates }) => gates.broker })]),
  ];
  try {
    await Promise.all([
      runSchedule(scene, processFaults, parts.toProcesses, schedule),
      runSchedule(scene, toServers, parts.toServers, schedule),
    ]);
  } finally {
    clearTimeout(end);
    ending.abort();
  }
}

/** Ends the producers, and resolves when all that they committed has gone its way. */
async function rest(scene: FaultScene): Promise<void> {
  await Promise.all(scene.those('producer').map((producer) => producer.stop(stopTimeoutMs)));
  await waitFor(
    async () => {
      const [orders, shipping] = await Promise.all([
        scene.orders.query<Counts>(
          `select (select count(*) from whizbang.wh_outbox where processed_at is null)::integer as waiting,
                  (select count(*) from committed)::integer as all,
                  (select count(*) from whizbang.wh_dead_letters)::integer as dead`,
        ),
        scene.shipping.query<Counts>(
          `select (select count(*) from whizbang.wh_inbox where processed_at is null)::integer as waiting,
                  (select count(*) from handled)::integer as all,
                  (select count(*) from whizbang.wh_dead_letters)::integer as dead`,
        ),
      ]);
      const [out, into] = [orders.rows[0], shipping.rows[0]];
      if (out === undefined || into === undefined) return false;
      const missing = out.all - out.dead - into.all - into.dead;
      if (out.waiting > 0 || into.waiting > 0 || missing > 0) {
        throw new Error(`${out.waiting} wait in the outbox, ${into.waiting} in the inbox, ${missing} are not there`);
      }
      return true;
    },
    { message: 'everything to be handled', timeoutMs: drainTimeoutMs, intervalMs: 100 },
  );
}

interface Counts {
  readonly waiting: number;
  readonly all: number;
  readonly dead: number;
}

async function stopAll(scene: FaultScene): Promise<string[]> {
  // They have been stopped already, unless something went wrong.
  await Promise.all(scene.those('producer').map((producer) => producer.kill()));
  const others = scene.participants.filter(({ role }) => role !== 'producer');
  const wrong = (await Promise.all(others.map((participant) => participant.stop(stopTimeoutMs)))).flat();
  for (const { name, stopMs } of others) {
    if (stopMs > promptStopMs)
      wrong.push(`${name} took ${Math.round(stopMs)} ms to stop with nothing to do: something in it hangs`);
  }
  wrong.push(...scene.participants.flatMap(({ unexpectedEnds }) => unexpectedEnds));
  let left: string[] = [];
  await waitFor(async () => (left = await readLeftovers(scene)).length === 0, {
    message: 'everything to be let go of',
    timeoutMs: 5_000,
    intervalMs: 200,
  }).catch(() => undefined);
  return [...wrong, ...left.map((what) => `left behind: ${what}`)];
}

async function writeLogs(scene: FaultScene, folder: string, summary: object): Promise<void> {
  await writeFile(join(folder, 'summary.json'), JSON.stringify(summary, undefined, 1));
  for (const { name, programs } of scene.participants) {
    const lines = programs.flatMap(({ pid, messages, output }) => [
      `── process ${pid}`,
      ...messages.map((message) => JSON.stringify(message)),
      `── end of its output`,
      output.slice(-3_000),
    ]);
    await writeFile(join(folder, `${name}.log`), lines.join('\n'));
  }
}
