import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { messageTo } from '../conformance/messages.js';
import { KAFKA_ACCOUNT, waitFor } from '../fixtures/index.js';
import { testKafka, testProgram } from '../fixtures/test-services.js';
import { never, outcomeText } from '../fixtures/watched-transport.js';
import { connected, connecting } from './connected.js';

const idle = fileURLToPath(new URL('../dist/transport-kafka/idle.process.js', import.meta.url));

async function withLogin(password: string): Promise<string> {
  const { saslUrl } = await testKafka();
  if (saslUrl === undefined) throw new Error('the broker has no listener that wants a login');
  return saslUrl.replace('kafka://', `kafka://${KAFKA_ACCOUNT.username}:${password}@`);
}

test.each(['plain', 'scram-sha-256', 'scram-sha-512'] as const)('logs in with %s', async (saslMechanism) => {
  const { prefix: topic } = await testKafka();
  const { transport } = await connected(await withLogin(KAFKA_ACCOUNT.password), { saslMechanism });
  expect((await transport.publish([messageTo(topic)], never)).map(outcomeText)).toEqual(['confirmed']);
});

test.each(['plain', 'scram-sha-256'] as const)(
  'credentialsRefused: a wrong password with %s',
  async (saslMechanism) => {
    const { transport, log, readiness } = await connecting(await withLogin('wrong-secret'), { saslMechanism });
    await waitFor(() => log.length > 0, { message: 'a word about it', timeoutMs: 10_000 });
    expect(log[0]).toMatch(/failed: user name or password is wrong$/);
    expect(transport.ready()).toBe(false);
    expect(readiness).toEqual([]);
    expect(`${log.join()} ${JSON.stringify(readiness)}`).not.toContain('wrong-secret');
  },
);

test('saslMechanismRefused: a login where the broker wants none', async () => {
  const { url } = await testKafka();
  const { transport, log } = await connecting(url.replace('kafka://', 'kafka://alice:secret-word@'));
  await waitFor(() => log.length > 0, { message: 'a word about it', timeoutMs: 10_000 });
  expect(transport.ready()).toBe(false);
  expect(log[0]).toMatch(/ILLEGAL_SASL_STATE|closed by the server/);
});

test('TLS where the broker speaks none does not come up, and closes', async () => {
  const { url } = await testKafka();
  const { transport, log } = await connecting(url.replace('kafka://', 'kafkas://'), { connectTimeoutMs: 1_000 });
  await waitFor(() => log.length > 0, { message: 'a word about it', timeoutMs: 10_000 });
  expect(transport.ready()).toBe(false);
});

test('a peer that accepts and stays silent is given up, and closing does not wait for it', async () => {
  const silent = createServer();
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  onTestFinished(() => void silent.close());
  const { port } = silent.address() as AddressInfo;
  const { transport, log } = await connecting(`kafka://127.0.0.1:${port}`, { connectTimeoutMs: 300 });
  await waitFor(() => log.length > 0, { message: 'a word about it', timeoutMs: 10_000 });
  expect(log[0]).toContain('no answer within 300 ms');
  const started = performance.now();
  await transport.close();
  expect(performance.now() - started).toBeLessThan(2_000);
});

test('of several brokers one that answers will do', async () => {
  const { url, prefix: topic } = await testKafka();
  const { transport } = await connected(url.replace('kafka://', 'kafka://127.0.0.1:1,'));
  expect((await transport.publish([messageTo(topic)], never)).map(outcomeText)).toEqual(['confirmed']);
});

test('an idle transport wakes up a few times a second', async () => {
  const { url, prefix: topic } = await testKafka();
  const program = testProgram(idle, { KAFKA: url, TOPIC: topic });
  const { wakeUps } = await program.waitForMessage(({ wakeUps: some }) => some !== undefined, {
    message: 'how often it woke up',
    timeoutMs: 30_000,
  });
  // With one subscription: a heartbeat and a fetch a second, each with an answer, and the rest is Node's.
  expect(wakeUps).toBeLessThan(60);
});
