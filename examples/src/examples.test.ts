import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import {
  type Program,
  runProgram,
  startKafka,
  startPostgres,
  startRabbitmq,
  startServicebus,
  withAdministration,
} from '@whizbang/test/fixtures';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const compiled = (path: string) => fileURLToPath(new URL(`../dist/${path}`, import.meta.url));

async function runToTheEnd(program: Program): Promise<string> {
  await using running = program;
  const exit = await running.exited;
  if (exit.code !== 0) throw new Error(`It ended with ${exit.signal ?? exit.code}:\n${running.output}`);
  return running.output;
}

test('the README quotes the quickstart as it is', () => {
  const quoted = /<!-- examples\/src\/quickstart\/main\.ts -->\n```ts\n(?<code>.*?)```/s.exec(read('README.md'));
  expect(quoted?.groups?.['code']).toBe(read('examples/src/quickstart/main.ts'));
});

interface Broker extends AsyncDisposable {
  readonly url: string;
}

const brokers: readonly { broker: string; start: () => Promise<Broker> }[] = [
  { broker: 'in-process', start: async () => ({ url: 'memory:', [Symbol.asyncDispose]: async () => undefined }) },
  { broker: 'RabbitMQ', start: inVirtualHost },
  { broker: 'Kafka', start: () => startKafka({ private: true }) },
  { broker: 'Service Bus', start: startServicebusWithAdministration },
];

async function inVirtualHost(): Promise<Broker> {
  const server = await startRabbitmq();
  const host = await server.createVirtualHost();
  return { url: host?.url ?? server.url, [Symbol.asyncDispose]: () => server.stop() };
}

async function startServicebusWithAdministration(): Promise<Broker> {
  const server = await startServicebus();
  return { url: withAdministration(server), [Symbol.asyncDispose]: () => server.stop() };
}

describe.each(brokers)('with the broker: $broker', ({ start }) => {
  let broker: Broker;

  beforeAll(async () => {
    broker = await start();
  });
  afterAll(async () => broker?.[Symbol.asyncDispose]());

  test('the quickstart delivers its message', { timeout: 120_000 }, async () => {
    await using postgres = await startPostgres();
    await using database = await postgres.createDatabase();
    const env = { DATABASE_URL: database.url, BROKER_URL: broker.url };
    const output = await runToTheEnd(runProgram(compiled('quickstart/main.js'), env));
    expect(output).toBe('Shipped order-1.\n');
  });

  test('the demo finds that everything holds', { timeout: 180_000 }, async () => {
    const output = await runToTheEnd(runProgram(compiled('demo/main.js'), { BROKER_URL: broker.url }));
    expect(output).toContain('Everything holds.');
    expect(output).not.toContain('✗');
  });
});
