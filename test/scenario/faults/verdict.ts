import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import type pg from 'pg';

import type { SeenMessage } from '../brokers/scenario-broker.js';
import { type RowLife, readLives, readStolen } from './audit.js';
import { type FaultScene, readersName } from './fault-scene.js';
import type { DiaryLine } from './participant-settings.js';
import type { DoneFault } from './schedule.js';

/** What a run came to. */
export interface Verdict {
  /** Sentences; none, when everything holds. */
  readonly violations: readonly string[];
  readonly committed: number;
  readonly handled: number;
  readonly dead: number;
  /** Times that a message reached the broker again. */
  readonly sentAgain: number;
  /** Tries of handlers, and how many of them were meant to fail. */
  readonly tries: number;
  readonly meantToFail: number;
  /** Claims whose holder was lost before it could try or settle. */
  readonly lostLeases: number;
}

interface Committed {
  readonly messageId: string;
  readonly stream: string;
  readonly number: number;
  readonly at: number;
}

interface Handled {
  readonly messageId: string;
  readonly stream: string;
  readonly number: number;
  readonly attempt: number;
  readonly rolledBack: boolean;
}

interface Dead {
  readonly messageId: string;
  readonly table: string;
  readonly attempts: number;
  readonly error: string;
}

/** Everything that the tables, the broker and the diaries say, read without the library. */
export class Evidence {
  readonly committed = new Map<string, Committed>();
  handled: readonly Handled[] = [];
  dead = new Map<string, Dead>();
  outboxLives = new Map<string, RowLife>();
  inboxLives = new Map<string, RowLife>();
  seen: readonly Pick<SeenMessage, 'messageId' | 'body'>[] = [];
  tries: readonly DiaryLine[] = [];
  stolen: readonly string[] = [];
  accountSteps = 0;

  static async read(scene: FaultScene): Promise<Evidence> {
    const evidence = new Evidence();
    const { orders, shipping } = scene;
    const committed = await orders.query<{ id: string; stream: string; number: number; at: number }>(
      'select message_id as id, stream, number, extract(epoch from at)::float8 * 1000 as at from committed',
    );
    for (const { id, stream, number, at } of committed.rows)
      evidence.committed.set(id, { messageId: id, stream, number, at });
    evidence.handled = (
      await shipping.query<Handled>(
        `select message_id as "messageId", stream, number, attempt, rolled_back as "rolledBack" from handled order by position`,
      )
    ).rows;
    for (const pool of [orders, shipping]) {
      for (const dead of await readDead(pool)) evidence.dead.set(dead.messageId, dead);
    }
    evidence.outboxLives = await readLives(orders, 'wh_outbox');
    evidence.inboxLives = await readLives(shipping, 'wh_inbox');
    evidence.stolen = [...(await readStolen(orders)), ...(await readStolen(shipping))];
    const steps = await shipping.query<{ sum: number }>('select sum(steps)::integer as sum from accounts');
    evidence.accountSteps = steps.rows[0]?.sum ?? -1;
    evidence.tries = await readDiaries(scene.folder);
    evidence.seen = scene.broker === undefined ? takenIn(evidence.tries) : await scene.broker.seen();
    return evidence;
  }
}

async function readDead(pool: pg.Pool): Promise<Dead[]> {
  const { rows } = await pool.query<Dead>(
    `select source_id as "messageId", source_table as "table", attempts_when_dlq as attempts, error_text as error
     from whizbang.wh_dead_letters`,
  );
  return rows;
}

async function readDiaries(folder: string): Promise<DiaryLine[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.diary'));
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
  const lines = texts.flatMap((text) => text.split('\n').filter((line) => line !== ''));
  return lines.map((line) => JSON.parse(line) as DiaryLine).toSorted((a, b) => a.at - b.at);
}

function takenIn(lines: readonly DiaryLine[]): Pick<SeenMessage, 'messageId' | 'body'>[] {
  return lines.flatMap((line) => ('taken' in line ? [{ messageId: line.taken, body: line.body }] : []));
}

const attemptCap = 10;

/** Compares what should be with what is. `calmFrom`: from then on nothing was done to anybody. */
export function judge(evidence: Evidence, done: readonly DoneFault[], calmFrom: number): Verdict {
  const violations = new Violations();
  const explained = explanationsBy(done, calmFrom);
  const { committed, handled, dead, seen } = evidence;
  const handledIds = new Set(handled.map(({ messageId }) => messageId));

  // Committed = delivered + waiting + dead, and nothing else.
  for (const id of committed.keys()) {
    const waits = isThere(evidence.outboxLives.get(id)) || isThere(evidence.inboxLives.get(id));
    if (!handledIds.has(id) && !dead.has(id) && !waits) violations.add('lost', id);
    if (handledIds.has(id) && dead.has(id)) violations.add('handled and dead', id);
    if (waits) violations.add('still waiting', id);
  }
  for (const id of new Set([
    ...handledIds,
    ...dead.keys(),
    ...evidence.outboxLives.keys(),
    ...evidence.inboxLives.keys(),
  ])) {
    if (!committed.has(id)) violations.add('never committed, and there', id);
  }
  for (const { messageId, rolledBack } of handled)
    if (rolledBack) violations.add('rolled back, and handled', messageId);

  // Effects exactly once.
  if (handled.length !== handledIds.size) violations.add('handled twice', `${handled.length - handledIds.size} times`);
  if (evidence.accountSteps !== 2 * handled.length) {
    violations.add('effects', `${evidence.accountSteps} steps in the accounts for ${handled.length} handled messages`);
  }
  violations.addAll('out of order in the handler', outOfOrder(handled));

  // At the broker.
  const firstSeen: Committed[] = [];
  const timesSeen = new Map<string, number>();
  for (const { messageId, body } of seen) {
    const { order, number, rolledBack } = JSON.parse(body) as { order: string; number: number; rolledBack: boolean };
    const times = (timesSeen.get(messageId) ?? 0) + 1;
    timesSeen.set(messageId, times);
    if (times === 1) firstSeen.push({ messageId, stream: order, number, at: 0 });
    if (rolledBack) violations.add('rolled back, and published', messageId);
    if (!committed.has(messageId)) violations.add('never committed, and published', messageId);
  }
  violations.addAll('out of order at the broker', outOfOrder(firstSeen));
  for (const id of handledIds) if (!timesSeen.has(id)) violations.add('handled, and never published', id);
  for (const [id, times] of timesSeen) {
    if (times > 1 && !explained(evidence.outboxLives.get(id))) violations.add('published again without a reason', id);
  }

  const triesOf = groupTries(evidence.tries);
  let lostLeases = 0;
  // Attempts equal tries; a lease that was lost counts as one, and only what was done to somebody explains it.
  for (const life of evidence.outboxLives.values()) {
    if (dead.get(life.messageId)?.table === 'wh_outbox' || isThere(life)) continue;
    lostLeases += Math.max(0, life.attempts - 1);
    if (life.attempts !== 1 && !explained(life)) {
      violations.add('attempts of the publisher', `${life.messageId}: ${life.attempts} without a reason`);
    }
  }
  for (const life of evidence.inboxLives.values()) {
    const { failed = [], begun = [] } = triesOf.get(life.messageId) ?? {};
    if (isThere(life)) continue;
    const lost = life.attempts - new Set(failed).size - (handledIds.has(life.messageId) ? 1 : 0);
    lostLeases += Math.max(0, lost);
    if (explained(life)) continue;
    if (lost !== 0)
      violations.add('attempts of the handler', `${life.messageId}: ${life.attempts} for ${failed.length} failures`);
    if (begun.length !== life.attempts) {
      violations.add('tries of the handler', `${life.messageId}: ${begun.join()} with ${life.attempts} attempts`);
    }
  }
  for (const [id, { reused }] of triesOf) {
    if (reused.length > 0 && !explained(evidence.inboxLives.get(id))) {
      violations.add('a failure was not counted', `${id}: ${reused.join()}`);
    }
  }
  for (const { messageId, attempt } of handled) {
    const { begun = [] } = triesOf.get(messageId) ?? {};
    if (!begun.includes(attempt)) violations.add('handled, and never begun', `${messageId} at ${attempt}`);
  }
  for (const { messageId, attempts, error } of dead.values()) {
    const hopeless = triesOf.get(messageId)?.hopeless === true;
    if (!hopeless && attempts < attemptCap)
      violations.add('dead before its time', `${messageId} after ${attempts}: ${error}`);
  }
  violations.addAll('held by two', evidence.stolen);

  return {
    violations: violations.sentences,
    committed: committed.size,
    handled: handled.length,
    dead: dead.size,
    sentAgain: seen.length - timesSeen.size,
    tries: evidence.tries.filter((line) => 'begins' in line).length,
    meantToFail: evidence.tries.filter((line) => 'throws' in line).length,
    lostLeases,
  };
}

/** What is left of those who have stopped. */
export async function readLeftovers(scene: FaultScene): Promise<string[]> {
  const left: string[] = [];
  const stopped = scene.participants.map(({ pid }) => pid);
  for (const [name, pool] of [
    ['orders', scene.orders],
    ['shipping', scene.shipping],
  ] as const) {
    const { rows } = await pool.query<{ what: string }>(
      `select 'lease of ' || message_id as what from whizbang.wh_outbox where instance_id is not null and processed_at is null
       union all select 'lease of ' || message_id from whizbang.wh_inbox where instance_id is not null and processed_at is null
       union all select 'blocked ' || message_id from whizbang.wh_outbox where blocked
       union all select 'blocked ' || message_id from whizbang.wh_inbox where blocked
       union all select 'instance of process ' || process_id from whizbang.wh_service_instances where process_id = any ($1)
       union all select 'doorbell ' || channel || ' of process ' || s.process_id from whizbang.wh_doorbells d
                 join whizbang.wh_service_instances s on s.instance_id = d.instance_id where s.process_id = any ($1)
       union all select 'lock ' || l.locktype || ' ' || coalesce(l.relation::regclass::text, '') from pg_locks l
                 join pg_stat_activity a on a.pid = l.pid
                 where a.datname = current_database() and a.application_name <> $2
       union all select 'connection of ' || application_name from pg_stat_activity
                 where datname = current_database() and application_name <> $2 and backend_type = 'client backend'`,
      [stopped, readersName],
    );
    left.push(...rows.map(({ what }) => `${name}: ${what}`));
  }
  if (scene.connections > 0) left.push(`${scene.connections} connections through gates`);
  return [...left, ...((await scene.broker?.leftovers()) ?? [])];
}

function isThere(life: RowLife | undefined): boolean {
  return life !== undefined && life.to === null;
}

/** Whether something was done, during the life of a row, that may have it sent or charged again. */
function explanationsBy(done: readonly DoneFault[], calmFrom: number): (life: RowLife | undefined) => boolean {
  const repeating = done.filter(({ repeats }) => repeats);
  return (life) => {
    if (life === undefined || life.from >= calmFrom) return false;
    return repeating.some(({ from, to }) => life.from <= to && (life.to ?? Infinity) >= from);
  };
}

/** Per stream the numbers only rise; those that are missing are dead, which is looked at elsewhere. */
function outOfOrder(messages: readonly Pick<Committed, 'messageId' | 'stream' | 'number'>[]): string[] {
  const last = new Map<string, number>();
  const wrong: string[] = [];
  for (const { messageId, stream, number } of messages) {
    const before = last.get(stream) ?? 0;
    if (number <= before) wrong.push(`${stream}: ${number} after ${before} (${messageId})`);
    last.set(stream, Math.max(number, before));
  }
  return wrong;
}

interface Tries {
  readonly begun: number[];
  readonly failed: number[];
  /** Attempts that began although one of that number, or a later one, had failed. */
  readonly reused: number[];
  hopeless: boolean;
}

function groupTries(lines: readonly DiaryLine[]): Map<string, Tries> {
  const all = new Map<string, Tries>();
  const of = (id: string): Tries => {
    const tries = all.get(id) ?? { begun: [], failed: [], reused: [], hopeless: false };
    all.set(id, tries);
    return tries;
  };
  for (const line of lines) {
    if ('begins' in line) {
      const tries = of(line.begins);
      tries.begun.push(line.attempt);
      if (tries.failed.some((attempt) => attempt >= line.attempt)) tries.reused.push(line.attempt);
    } else if ('throws' in line) {
      const tries = of(line.throws);
      tries.failed.push(line.attempt);
      tries.hopeless ||= line.hopeless;
    }
  }
  return all;
}

const shownOfEach = 5;

class Violations {
  readonly #byKind = new Map<string, string[]>();

  add(kind: string, what: string): void {
    const known = this.#byKind.get(kind);
    if (known === undefined) this.#byKind.set(kind, [what]);
    else known.push(what);
  }

  addAll(kind: string, whats: readonly string[]): void {
    for (const what of whats) this.add(kind, what);
  }

  get sentences(): string[] {
    return [...this.#byKind].map(
      ([kind, whats]) =>
        `${kind} (${whats.length}): ${whats.slice(0, shownOfEach).join('; ')}${whats.length > shownOfEach ? '; …' : ''}`,
    );
  }
}
