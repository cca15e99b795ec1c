// A service of its own process. SERVICE says which; SIGTERM stops it, SIGUSR2 makes it report.
import { setTimeout as delay } from 'node:timers/promises';

import { type Logger, createWhizbang } from '@whizbang/core';

import { insertHandled } from './ledger.js';
import { OrderChanged } from './orders.js';
import type { ServiceSettings } from './service-program.js';

const settings = JSON.parse(process.env['SERVICE'] ?? '{}') as ServiceSettings;
const say = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
const logged = (level: string) => (fields: object, message: string) => say({ level, log: message, ...fields });
const logger: Logger = { debug: () => undefined, info: logged('info'), warn: logged('warn'), error: logged('error') };

const whizbang = await createWhizbang({ ...settings.options, logger });
const { handler } = settings;
if (handler !== undefined) {
  whizbang.handle(OrderChanged, async ({ order, number, rolledBack = false }, { tx, messageId, attempt, signal }) => {
    if (handler.announce === true) say({ handling: messageId });
    await tx.query(insertHandled, [messageId, order, number, attempt, rolledBack]);
    // A deaf handler goes on when it is told to stop.
    if (handler.delayMs !== undefined) await delay(handler.delayMs, undefined, handler.deaf === true ? {} : { signal });
  });
}

process.on('SIGUSR2', () => say({ report: { cpu: process.cpuUsage(), counters: whizbang.counters } }));
// `once`: what is left listening would keep the process from showing that it ends by itself, or hide that it does not.
process.once('SIGTERM', () => {
  const begun = performance.now();
  void whizbang.stop().then((report) => say({ stopped: report, ms: performance.now() - begun }));
});
await whizbang.start();
say({ started: true });
