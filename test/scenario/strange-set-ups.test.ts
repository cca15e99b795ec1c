import { cp, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { type WhizbangOptions, createWhizbang, isWhizbangError, migrate } from '@whizbang/core';
import { createTransport } from '@whizbang/transport-rabbitmq';
import { describe, expect, test } from 'vitest';

import { startRabbitmq, waitFor } from '../fixtures/index.js';
import { freePorts } from '../fixtures/processes/free-ports.js';
import { testBroker, testDatabase, testProgram } from '../fixtures/test-services.js';
import { OrderChanged } from './orders.js';
import { KeptLog, atEnd, inTransaction, migratedDatabase, testPool, testService } from './test-service.js';

const secret = 'do-not-tell';

/** The error of something that must fail, after the checks that every one of them has to pass: a sentence and no more. */
async function sentenceOf(failing: Promise<unknown> | (() => unknown)): Promise<{ code: string; message: string }> {
  const error: unknown = await (async () => {
    try {
      await (typeof failing === 'function' ? failing() : failing);
    } catch (thrown) {
      return thrown;
    }
    return undefined;
  })();
  if (!isWhizbangError(error)) throw new Error('no error of the library', { cause: error });
  // One line, or a heading and a line for each thing that is wrong.
  expect(error.message).toMatch(/^.*\.$|^.*:(\n- .*)+$/);
  expect(error.message).not.toContain(secret);
  expect(error.message).not.toMatch(/\n\s+at /);
  return { code: error.code, message: error.message };
}

async function startWith(options: Partial<WhizbangOptions> & Pick<WhizbangOptions, 'database'>): Promise<unknown> {
  const whizbang = await testService(options);
  return whizbang.start();
}

function withUrl(url: string, change: (url: URL) => void): string {
  const changed = new URL(url);
  change(changed);
  return changed.href;
}

describe('the database', () => {
  test('refuses the password', async () => {
    const { url, pool } = await migratedDatabase();
    const name = `scenario_${Date.now().toString(36)}`;
    await pool.query(`create role ${name} login password 'right'`);
    atEnd(async () => void (await pool.query(`drop role ${name}`)));
    // The servers of the tests trust everybody; a role that may not log in meets the same kind of refusal.
    await pool.query(`alter role ${name} nologin`);
    const wrong = withUrl(url, (changed) => {
      changed.username = name;
      changed.password = secret;
    });
    const { code, message } = await sentenceOf(startWith({ database: wrong }));
    expect(code).toBe('WHIZBANG_DATABASE_UNAVAILABLE');
    expect(message).toMatch(/refuses the login.*Check user and password/);
    expect((await sentenceOf(migrate({ database: wrong }))).message).toMatch(/refuses the login/);
  });

  test('does not exist', async () => {
    const { url } = await testDatabase();
    const missing = withUrl(url, (changed) => (changed.pathname = '/no_such_database'));
    const { code, message } = await sentenceOf(startWith({ database: missing }));
    expect(code).toBe('WHIZBANG_DATABASE_UNAVAILABLE');
    expect(message).toMatch(/database does not exist.*no_such_database/);
  });

  test('was never migrated', async () => {
    const { url } = await testDatabase();
    const { code, message } = await sentenceOf(startWith({ database: url }));
    expect(code).toBe('WHIZBANG_SCHEMA_MISSING');
    expect(message).toMatch(/tables are missing in schema 'whizbang'.*Run migrate\(\)/);
    const pool = testPool(url);
    const whizbang = await testService({ database: pool });
    const published = inTransaction(pool, (tx) => whizbang.publish(tx, OrderChanged, { order: 'a', number: 1 }));
    expect((await sentenceOf(published)).message).toMatch(/missing in schema 'whizbang'.*Run migrate\(\)/);
  });

  test('was migrated by a newer library', async () => {
    const { url, pool } = await migratedDatabase();
    await pool.query(
      `insert into whizbang.wh_schema_migrations (kind, name, checksum, library_version) values ('migration', '9999_later', 'x', '99.0.0')`,
    );
    const { code, message } = await sentenceOf(startWith({ database: url }));
    expect(code).toBe('WHIZBANG_SCHEMA_NEWER');
    expect(message).toMatch(/9999_later of version 99\.0\.0.*Use a library at least as new/);
    expect((await sentenceOf(migrate({ database: url }))).code).toBe('WHIZBANG_SCHEMA_NEWER');
  });

  test('cannot be reached', async () => {
    const [port] = await freePorts(1);
    const database = `postgres://somebody:${secret}@127.0.0.1:${port}/orders`;
    const { code, message } = await sentenceOf(startWith({ database }));
    expect(code).toBe('WHIZBANG_DATABASE_UNAVAILABLE');
    expect(message).toMatch(/cannot be reached.*Check host and port/);
  });
});

describe('the broker', () => {
  test('is away at start, which is said once, and comes later', async () => {
    const { url } = await migratedDatabase();
    const log = new KeptLog();
    const numbers: number[] = [];
    // Its port is kept while it is down.
    const broker = await startRabbitmq({ private: true });
    atEnd(() => broker.stop());
    await broker.kill();
    const whizbang = await testService({
      database: url,
      broker: createTransport(broker.url, { reconnectMaxDelayMs: 2000 }),
      logger: log,
    });
    whizbang.handle(OrderChanged, ({ number }) => void numbers.push(number));
    await whizbang.start();
    expect(whizbang.brokerReady).toBe(false);
    for (const number of [1, 2, 3]) await whizbang.publishNow(OrderChanged, { order: 'a', number });
    await waitFor(() => log.about(/ECONNREFUSED/).length > 0, { message: 'the log to say so' });
    await broker.start();
    await waitFor(() => whizbang.brokerReady, { message: 'the broker to be ready', timeoutMs: 30_000 });
    await waitFor(() => numbers.length === 3, { message: 'the messages', timeoutMs: 20_000 });
    expect(numbers).toEqual([1, 2, 3]);
    // Publishing may be back before receiving has made its queue. It waits: else the first try would find nobody.
    expect(log.about(/could not be published/)).toEqual([]);
    // Publishing and receiving have a connection each; both say it once, and then again at every tenth try.
    expect(log.about(/connecting to RabbitMQ.*ECONNREFUSED/).length).toBeLessThanOrEqual(4);
    expect(log.about(/broker is ready/)).toHaveLength(1);
  }, 150_000);

  test('refuses the password', async () => {
    const { url } = await migratedDatabase();
    const broker = await testBroker();
    const log = new KeptLog();
    const wrong = withUrl(broker.url, (changed) => (changed.password = secret));
    const whizbang = await testService({ database: url, broker: createTransport(wrong), logger: log });
    await whizbang.start();
    await waitFor(() => log.about(/refuse|ACCESS/i).length > 0, { message: 'the log to say so' });
    expect(log.lines.join('\n')).not.toContain(secret);
    expect(log.lines.join('\n')).not.toMatch(/\n\s+at /);
  });

  test('is one that nobody knows', async () => {
    const { code, message } = await sentenceOf(
      createWhizbang({ service: 'shipping', database: 'postgres://db/x', broker: `nats://me:${secret}@broker` }),
    );
    expect(code).toBe('WHIZBANG_TRANSPORT_MISSING');
    expect(message).toMatch(/nats:\/\/me:\*\*\*@broker.*must begin with one of memory:, amqp:/);
  });

  test('needs a package that is not installed', async () => {
    // As an application would have it: core and what core needs, nothing else, far from this repository.
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'whizbang-application-')));
    atEnd(() => rm(folder, { recursive: true }));
    const core = fileURLToPath(new URL('../../packages/core', import.meta.url));
    await mkdir(join(folder, 'node_modules/@whizbang/core'), { recursive: true });
    for (const part of ['package.json', 'dist'])
      await cp(join(core, part), join(folder, 'node_modules/@whizbang/core', part), { recursive: true });
    for (const name of ['pg', 'uuid', 'zod', '@opentelemetry/api']) {
      await mkdir(dirname(join(folder, 'node_modules', name)), { recursive: true });
      await symlink(await realpath(join(core, 'node_modules', name)), join(folder, 'node_modules', name));
    }
    const program = join(folder, 'application.mjs');
    await writeFile(
      program,
      `import { createWhizbang } from '@whizbang/core';
       process.chdir(${JSON.stringify(folder)});
       for (const broker of ['kafka://me:${secret}@broker:9092', 'amqp://me:${secret}@broker', 'Endpoint=sb://x/;SharedAccessKey=${secret}']) {
         const { code, message } = await createWhizbang({ service: 'a', database: 'postgres://db/x', broker }).catch((error) => error);
         console.log(JSON.stringify({ code, message }));
       }`,
    );
    // pnpm's own way to run programs shows them more packages than they have.
    const application = testProgram(program, { NODE_PATH: '' });
    expect(await application.exited, `output: ${application.output}`).toEqual({ code: 0, signal: null });
    expect(application.messages).toEqual(
      [
        ['kafka', '@whizbang/transport-kafka'],
        ['amqp', '@whizbang/transport-rabbitmq'],
        ['sb', '@whizbang/transport-servicebus'],
      ].map(([scheme, name]) => ({
        code: 'WHIZBANG_TRANSPORT_MISSING',
        message: `The broker URL begins with ${scheme}:, which needs the package ${name}. Install it: npm install ${name}`,
      })),
    );
  });
});

describe('the code', () => {
  test('registers two handlers for one message', async () => {
    const whizbang = await testService({ database: 'postgres://db/x' });
    whizbang.handle(OrderChanged, () => undefined);
    const { code, message } = await sentenceOf(() => whizbang.handle(OrderChanged, () => undefined));
    expect(code).toBe('WHIZBANG_CONFIGURATION');
    expect(message).toMatch(/'orders\.order-changed' has a handler already/);
    expect((await sentenceOf(() => whizbang.handleBatch(OrderChanged, () => undefined))).code).toBe(code);
  });

  test('gives options that there are not, and all of them are named', async () => {
    const options = {
      service: 'shipping!',
      database: `mysql://me:${secret}@db/x`,
      broker: 'memory:',
      brokr: 'memory:',
      publisher: { batchSize: 0, batchsize: 5 },
      wakeups: { safetyPollMs: 'soon' },
      messages: [{}],
    } as unknown as WhizbangOptions;
    const { code, message } = await sentenceOf(createWhizbang(options));
    expect(code).toBe('WHIZBANG_CONFIGURATION');
    const named = message
      .split('\n')
      .slice(1)
      .map((line) => /^- ([\w.]+): /.exec(line)?.[1]);
    const wrong = ['brokr', 'database', 'messages.0', 'publisher.batchSize', 'publisher.batchsize', 'service'];
    expect(new Set(named)).toEqual(new Set([...wrong, 'wakeups.safetyPollMs']));
  });

  test('gives the transport an option that there is not', async () => {
    const creating = createWhizbang({
      service: 'shipping',
      database: 'postgres://db/x',
      broker: 'memory:',
      brokerOptions: { queueTyp: 'classic' },
    });
    const error: unknown = await creating.catch((cause: unknown) => cause);
    expect(isWhizbangError(error) && error.code).toBe('WHIZBANG_CONFIGURATION');
    expect((error as Error).message).toMatch(/queueTyp/);
  });

  test('registers a handler after start, or starts twice', async () => {
    const { url } = await migratedDatabase();
    const whizbang = await testService({ database: url });
    await whizbang.start();
    const { code, message } = await sentenceOf(() => whizbang.handle(OrderChanged, () => undefined));
    expect(code).toBe('WHIZBANG_STATE');
    expect(message).toMatch(/registered after start\(\)/);
    expect((await sentenceOf(whizbang.start())).message).toMatch(/start\(\) was called when the service was started/);
  });

  test('publishes after stop', async () => {
    const { url, pool } = await migratedDatabase();
    const whizbang = await testService({ database: url });
    await whizbang.start();
    await whizbang.stop();
    // On the caller's own connection nothing of ours is needed; whoever runs next publishes it.
    await inTransaction(pool, (tx) => whizbang.publish(tx, OrderChanged, { order: 'a', number: 1 }));
    expect((await pool.query('select from whizbang.wh_outbox where instance_id is null')).rowCount).toBe(1);
    const { code, message } = await sentenceOf(whizbang.publishNow(OrderChanged, { order: 'a', number: 1 }));
    expect(code).toBe('WHIZBANG_STATE');
    expect(message).toMatch(/publishNow\('orders.order-changed'\) was called after stop\(\)/);
  });

  test('gives handlers a pool of one connection', async () => {
    const { url } = await migratedDatabase();
    const whizbang = await testService({ database: testPool(url, 1) });
    whizbang.handle(OrderChanged, () => undefined);
    const { code, message } = await sentenceOf(whizbang.start());
    expect(code).toBe('WHIZBANG_CONFIGURATION');
    expect(message).toMatch(/at least 2 connections/);
  });

  // Two is the least; four leaves one for handlers beside what the workers need; nine is one more than the concurrency.
  test.each([2, 4, 9])('gives handlers a pool of %i connections, which they use besides', async (size) => {
    const { url } = await migratedDatabase();
    const pool = testPool(url, size);
    const whizbang = await testService({ database: pool });
    const handled: number[] = [];
    whizbang.handle(OrderChanged, async ({ number }, { tx }) => {
      await tx.query('select 1');
      await Promise.all([pool.query('select 1'), pool.query('select 2')]);
      handled.push(number);
    });
    await whizbang.start();
    await inTransaction(pool, (tx) =>
      whizbang.publishMany(
        tx,
        OrderChanged,
        Array.from({ length: 200 }, (_, number) => ({ order: `order ${number % 20}`, number })),
      ),
    );
    await waitFor(() => handled.length === 200, { message: 'all of them', timeoutMs: 30_000 });
    expect(new Set(handled).size).toBe(200);
  });

  test('publishes without a transaction', async () => {
    const whizbang = await testService({ database: 'postgres://db/x' });
    const publish = whizbang.publish.bind(whizbang) as unknown as (...parameters: unknown[]) => Promise<unknown>;
    for (const nothing of [undefined, null, {}, OrderChanged]) {
      const { code, message } = await sentenceOf(publish(nothing, OrderChanged, { order: 'a', number: 1 }));
      expect(code).toBe('WHIZBANG_CONFIGURATION');
      expect(message).toMatch(/needs the transaction first.*publishNow/);
    }
    expect((await sentenceOf(publish(OrderChanged, { order: 'a', number: 1 }))).message).toMatch(
      /needs the transaction/,
    );
  });
});
