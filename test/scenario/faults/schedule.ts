import { setTimeout as delay } from 'node:timers/promises';

import type { Fault, Struck } from './fault.js';
import type { FaultScene } from './fault-scene.js';
import type { Random } from './random.js';

/** A fault that has been done. Times are milliseconds of the wall clock. */
export interface DoneFault {
  readonly name: string;
  readonly on: string;
  readonly repeats: boolean;
  readonly from: number;
  readonly to: number;
  /** How long it took to do it, and to take it back. */
  readonly strikeMs: number;
  readonly undoMs: number;
}

/** How soon one fault follows the other. */
export interface Pace {
  /** Between the end of one and the next. */
  readonly pauseMs: readonly [least: number, most: number];
  /** Beyond what a fault lasts at least. */
  readonly lastsAtMostMs: number;
  readonly leavesOutSlow: boolean;
}

/**
 * Draws faults and does them, one after the other, until the signal. What is drawn is the seed's alone: the n-th fault of a seed
 * is the same in every run, whatever took how long.
 */
export async function runSchedule(
  scene: FaultScene,
  faults: readonly Fault[],
  random: Random,
  { pace, signal, onDone }: { pace: Pace; signal: AbortSignal; onDone: (done: DoneFault) => void },
): Promise<void> {
  const chosen = faults.filter(({ slow = false }) => !(slow && pace.leavesOutSlow));
  while (!signal.aborted) {
    const pause = random.between(...pace.pauseMs);
    const fault = draw(chosen, random);
    const [least, most] = fault.lasts;
    const lastsMs = random.between(least, Math.max(least, Math.min(most, pace.lastsAtMostMs)));
    const details = random.fork();
    await patiently(pause, signal);
    if (signal.aborted) return;
    const from = Date.now();
    let struck: Struck;
    try {
      struck = await fault.strike(scene, details);
    } catch (error) {
      throw new Error(`the fault "${fault.name}" could not be done`, { cause: error });
    }
    const struckAt = Date.now();
    await patiently(lastsMs, signal);
    const undoing = Date.now();
    await struck.undo();
    const to = Date.now();
    const { name, repeats } = fault;
    onDone({ name, on: struck.on, repeats, from, to, strikeMs: struckAt - from, undoMs: to - undoing });
  }
}

function draw(faults: readonly Fault[], random: Random): Fault {
  const scale = 60;
  const shares = faults.map(({ weight }) => Math.round(weight * scale));
  let ticket = random.between(
    1,
    shares.reduce((sum, share) => sum + share, 0),
  );
  for (const [index, fault] of faults.entries()) {
    ticket -= shares[index] ?? 0;
    if (ticket <= 0) return fault;
  }
  throw new Error('there are no faults');
}

async function patiently(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
}
