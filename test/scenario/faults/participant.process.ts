// One or more services that faults are done to. PARTICIPANT says which; SIGTERM stops them, commands come on standard input.
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

import { type Logger, type Whizbang, PermanentError, createWhizbang } from '@whizbang/core';
import { InProcessBroker } from '@whizbang/core/testing';
import pg from 'pg';

import { moveClock } from './moved-clock.js';
import { OrderStep, accountCount } from './order-step.js';
import type { DiaryLine, ParticipantCommand, ParticipantSettings } from './participant-settings.js';

const settings = JSON.parse(process.env['PARTICIPANT'] ?? '{}') as ParticipantSettings;
const say = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
const logged = (level: string) => (fields: object, message: string) => say({ level, log: message, ...fields });
const logger: Logger = { debug: () => undefined, info: logged('info'), warn: logged('warn'), error: logged('error') };
type Entry<Line> = Line extends DiaryLine ? Omit<Line, 'at'> : never;
/** Written at once, so that a process that is killed right afterwards has said it. */
const note = (line: Entry<DiaryLine>): void =>
  appendFileSync(settings.diary, `${JSON.stringify({ at: Number(process.hrtime.bigint()) / 1e6, ...line })}\n`);

function handleSteps(whizbang: Whizbang): void {
  whizbang.handle(OrderStep, async ({ order, number, rolledBack, failures, hopeless }, { tx, messageId, attempt }) => {
    note({ begins: messageId, attempt });
    await tx.query(
      'insert into handled (message_id, stream, number, attempt, rolled_back) values ($1, $2, $3, $4, $5)',
      [messageId, order, number, attempt, rolledBack],
    );
    const first = number % accountCount;
    const accounts = [first, (first + 1 + (number % 5)) % accountCount].toSorted((a, b) => a - b);
    for (const account of accounts) {
      await tx.query('update accounts set steps = steps + 1 where account = $1', [account]);
    }
    if (!hopeless && attempt > failures) return;
    note({ throws: messageId, attempt, hopeless });
    if (hopeless) throw new PermanentError('this step can never be made');
    throw new Error(`this step is not made at try ${attempt}`);
  });
}

const pools: pg.Pool[] = [];
const whizbangs: Whizbang[] = [];
for (const { options, handles, userPool } of settings.services) {
  let database: string | pg.Pool = options.database;
  if (userPool !== undefined) {
    const pool = new pg.Pool({
      connectionString: options.database,
      max: userPool,
      connectionTimeoutMillis: 2_000,
      application_name: `user-pool-${options.service}`,
    });
    pool.on('error', () => undefined);
    pools.push(pool);
    database = pool;
  }
  const whizbang = await createWhizbang({ ...options, database, messages: [OrderStep], logger });
  if (handles) handleSteps(whizbang);
  whizbangs.push(whizbang);
}

const broker = settings.services.some(({ options }) => options.broker === 'memory:')
  ? InProcessBroker.named()
  : undefined;
broker?.tap(OrderStep.destination, ({ messageId, body }) => note({ taken: messageId, body: String(body) }));

async function exhaust(pool: pg.Pool, ms: number): Promise<void> {
  const size = pool.options.max ?? 10;
  const taken = await Promise.allSettled(Array.from({ length: size }, () => pool.connect()));
  await delay(ms);
  for (const connection of taken) if (connection.status === 'fulfilled') connection.value.release();
}

async function obey(command: ParticipantCommand): Promise<void> {
  if ('clock' in command) moveClock(command.clock);
  if ('exhaustMs' in command) await Promise.all(pools.map((pool) => exhaust(pool, command.exhaustMs)));
  if ('failNext' in command) broker?.failNext(OrderStep.destination, command.failNext, { stored: command.stored });
  if ('report' in command) say({ report: whizbangs.map(({ counters }) => counters) });
  if ('broker' in command) {
    if (command.broker === 'blocked') broker?.block();
    else if (command.broker === 'unblocked') broker?.unblock();
    else broker?.setAvailable(command.broker === 'back');
  }
}

const commands = createInterface({ input: process.stdin });
commands.on('line', (line) => {
  obey(JSON.parse(line) as ParticipantCommand).catch((error: unknown) => say({ commandFailed: String(error) }));
});

// `once`: what is left listening would keep the process from showing that it ends by itself, or hide that it does not.
process.once('SIGTERM', () => {
  commands.close();
  process.stdin.destroy();
  const begun = performance.now();
  void Promise.all(whizbangs.map((whizbang) => whizbang.stop())).then(async (reports) => {
    const ms = performance.now() - begun;
    await Promise.all(pools.map((pool) => pool.end()));
    say({ stopped: reports.reduce((sum, { unfinished }) => sum + unfinished, 0), ms });
  });
});
// Those who handle first: what is published to a queue that does not exist yet would be lost with some brokers.
for (const whizbang of whizbangs.toReversed()) await whizbang.start();
say({ started: true });
