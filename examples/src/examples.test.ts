import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { type Program, type RabbitmqServer, runProgram, startPostgres, startRabbitmq } from '@whizbang/test/fixtures';
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

const brokers: readonly { broker: string; start: () => Promise<RabbitmqServer | undefined> }[] = [
  { broker: 'in-process', start: async () => undefined },
  { broker: 'RabbitMQ', start: () => startRabbitmq() },
];

describe.each(brokers)('with the broker: $broker', ({ start }) => {
  let server: RabbitmqServer | undefined;
  let environment: NodeJS.ProcessEnv = {};

  beforeAll(async () => {
    server = await start();
    const host = await server?.createVirtualHost();
    environment = { BROKER_URL: host?.url ?? server?.url ?? '' };
  });
  afterAll(() => server?.stop());

  test('the quickstart delivers its message', { timeout: 120_000 }, async () => {
    await using postgres = await startPostgres();
    await using database = await postgres.createDatabase();
    const { BROKER_URL = '' } = environment;
    const env = { DATABASE_URL: database.url, BROKER_URL: BROKER_URL === '' ? 'memory:' : BROKER_URL };
    const output = await runToTheEnd(runProgram(compiled('quickstart/main.js'), env));
    expect(output).toBe('Shipped order-1.\n');
  });

  test('the demo finds that everything holds', { timeout: 180_000 }, async () => {
    const output = await runToTheEnd(runProgram(compiled('demo/main.js'), environment));
    expect(output).toContain('Everything holds.');
    expect(output).not.toContain('✗');
  });
});
