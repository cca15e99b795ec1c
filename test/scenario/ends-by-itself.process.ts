// A program that uses Whizbang in the way that CASE says, and then has nothing more to do. It never calls process.exit.
import { createWhizbang, isWhizbangError } from '@whizbang/core';
import { createInProcessTransport } from '@whizbang/core/testing';
import type { Transport } from '@whizbang/core/transport';
import pg from 'pg';

import { OrderChanged } from './orders.js';

const database = process.env['DATABASE_URL'] ?? '';
const elsewhere = (change: (url: URL) => void): string => {
  const url = new URL(database);
  change(url);
  return url.href;
};
const say = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
const order = { order: 'a', number: 1 };

const make = async (options: { readonly database?: string; readonly broker?: string | Transport } = {}) => {
  const whizbang = await createWhizbang({ service: 'shipping', database, broker: 'memory:ends', ...options });
  whizbang.handle(OrderChanged, () => undefined);
  return whizbang;
};

/** A transport that fails in one step. */
function failing(step: 'connect' | 'subscribe'): Transport {
  const transport = createInProcessTransport('memory:ends', undefined);
  const fail = () => Promise.reject(new Error(`${step} fails`));
  return new Proxy(transport, {
    get: (target, name) => {
      const member: unknown = name === step ? fail : Reflect.get(target, name, target);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}

/** `start()` must reject; afterwards a new service, in the same process, must be able to start. */
async function startsWrongly(options: Parameters<typeof make>[0]): Promise<void> {
  const whizbang = await make(options);
  const error: unknown = await whizbang.start().then(
    () => undefined,
    (cause: unknown) => cause,
  );
  say({ rejected: error instanceof Error, known: isWhizbangError(error), message: String(error) });
}

async function publishes(): Promise<void> {
  const whizbang = await make();
  const client = new pg.Client(database);
  await client.connect();
  await client.query('begin');
  await whizbang.publish(client, OrderChanged, order);
  await client.query('commit');
  await client.end();
}

async function isStopped(how: 'before' | 'twice' | 'during'): Promise<void> {
  const whizbang = await make();
  if (how === 'before') {
    await whizbang.stop();
    return;
  }
  const starting = whizbang.start().catch(() => undefined);
  if (how === 'twice') await starting;
  await Promise.all([whizbang.stop(), whizbang.stop()]);
  await starting;
}

const cases: Record<string, () => Promise<unknown>> = {
  'only publishes in transactions of its own, and forgets to stop': publishes,
  'only calls publishNow, and forgets to stop': async () => (await make()).publishNow(OrderChanged, order),
  'has stopped before it started': () => isStopped('before'),
  'has stopped twice': () => isStopped('twice'),
  'has stopped while it started': () => isStopped('during'),
  'could not start: nobody listens at the address of the database': () =>
    startsWrongly({ database: elsewhere((url) => (url.port = '1')) }),
  'could not start: the database does not exist': () =>
    startsWrongly({ database: elsewhere((url) => (url.pathname = '/no_such_database')) }),
  'could not start: the transport fails to connect': () => startsWrongly({ broker: failing('connect') }),
  'could not start: the transport fails to subscribe': () => startsWrongly({ broker: failing('subscribe') }),
};

await cases[process.env['CASE'] ?? '']?.();
say({ done: performance.now() });
