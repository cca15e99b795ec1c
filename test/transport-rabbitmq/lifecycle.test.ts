import { type AddressInfo, type Server, type Socket, createServer } from 'node:net';
import { createTransport } from '@whizbang/transport-rabbitmq';
import { expect, onTestFinished, test } from 'vitest';
import { defaultType, messageTo } from '../conformance/messages.js';
import { waitFor } from '../fixtures/index.js';
import { testBroker } from '../fixtures/test-services.js';
import { never, outcomeText } from '../fixtures/watched-transport.js';
import { connected, connecting } from './connected.js';
import { TcpGate } from '../fixtures/network/tcp-gate.js';

/** Sockets and timers of this process; a closed transport must leave what was there before. */
const resources = (): string[] =>
  process.getActiveResourcesInfo().filter((kind) => /TCP|TLS|Timeout|Immediate|GetAddrInfo/.test(kind));

async function closingTime(transport: { close(): Promise<void> }): Promise<number> {
  const before = performance.now();
  await transport.close();
  return performance.now() - before;
}

async function silentPeer(): Promise<{ readonly port: number; readonly sockets: Socket[] }> {
  const sockets: Socket[] = [];
  const server: Server = createServer((socket) => {
    socket.on('error', () => undefined);
    sockets.push(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, sockets };
}

test('nothing listens there: says so once, then every tenth time, and close ends it', async () => {
  const { transport, log, readiness } = await connecting('amqp://app:hunter2@127.0.0.1:1/');
  await waitFor(() => log.length === 3, { message: 'the twentieth attempt', timeoutMs: 30_000 });
  expect(log.map((line) => /ECONNREFUSED/.test(line))).toEqual([true, true, true]);
  expect(log[1]).toContain('(10 times so far)');
  expect(log.join()).not.toContain('hunter2');
  expect(readiness).toEqual([]);
  expect(await closingTime(transport)).toBeLessThan(1000);
});

test.each(['amqp', 'amqps'])(
  'a peer that accepts %s and stays silent: the attempt has a deadline, close has none to wait for',
  async (scheme) => {
    const { port, sockets } = await silentPeer();
    const impatient = await connecting(`${scheme}://127.0.0.1:${port}/?connectTimeoutMs=100`);
    await waitFor(() => impatient.log.some((line) => line.includes('no answer within 100 ms')), {
      message: 'the deadline',
    });
    await waitFor(() => sockets.length > 1, { message: 'another attempt' });
    expect(await closingTime(impatient.transport)).toBeLessThan(1000);
    const patient = await connecting(`${scheme}://127.0.0.1:${port}/`);
    const count = sockets.length;
    await waitFor(() => sockets.length > count, { message: 'the attempt' });
    expect(await closingTime(patient.transport)).toBeLessThan(1000);
  },
);

test('a broker that goes silent: in flight fails by the confirm timeout, the heartbeat ends the connection, close is quick', async () => {
  const { url } = await testBroker();
  const broker = new URL(url);
  const gate = new TcpGate({ host: broker.hostname, port: Number(broker.port) });
  await gate.open();
  onTestFinished(() => gate.close());
  broker.port = String(gate.port);
  const { transport, isReady } = await connected(broker.href, { confirmTimeoutMs: 300, heartbeatSeconds: 1 });
  const destination = `silent-${gate.port}`;
  expect((await transport.publish([messageTo(destination)], never)).map((outcome) => outcomeText(outcome))).toEqual([
    'failed TransportNotReady, retry',
  ]);
  gate.stall();
  const [outcome] = await transport.publish([messageTo(destination)], never);
  expect(outcome && outcomeText(outcome)).toBe('failed TransportException, retry');
  await isReady(false);
  gate.resume('new');
  await isReady();
  gate.stall();
  const last = transport.publish([messageTo(destination)], never);
  expect(await closingTime(transport)).toBeLessThan(5000);
  expect((await last)[0]?.kind).not.toBe('confirmed');
});

test('close while publishing and receiving leaves no socket and no timer; twice is fine; afterwards nothing is sent', async () => {
  const { url, prefix } = await testBroker();
  const before = resources();
  const transport = createTransport(url);
  const logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
  await transport.connect({ logger, onReadyChange: () => undefined });
  await waitFor(() => transport.ready(), { message: 'the connection' });
  const subscription = {
    service: prefix,
    bindings: [{ destination: prefix, messageTypes: [defaultType] }],
    ordered: true,
    maxBatch: 10,
    prefetch: 10,
  };
  let calls = 0;
  await transport.subscribe(subscription, async () => {
    calls += 1;
    throw new Error('never accepted');
  });
  await waitFor(async () => (await transport.publish([messageTo(prefix)], never))[0]?.kind === 'confirmed', {
    message: 'a confirm',
  });
  await waitFor(() => calls > 0, { message: 'a call of the handler' });
  const publishing = transport.publish(
    Array.from({ length: 5000 }, () => messageTo(prefix)),
    never,
  );
  const [time] = await Promise.all([closingTime(transport), transport.close()]);
  expect(time).toBeLessThan(5000);
  const kinds = new Set((await publishing).map((outcome) => outcomeText(outcome)));
  expect([...kinds].filter((kind) => kind !== 'confirmed' && kind !== 'notAttempted')).toEqual([]);
  expect(transport.ready()).toBe(false);
  expect(await transport.publish([messageTo(prefix)], never)).toEqual([{ kind: 'notAttempted' }]);
  await expect(transport.subscribe(subscription, async () => undefined)).rejects.toMatchObject({
    code: 'WHIZBANG_STATE',
  });
  await waitFor(() => resources().length <= before.length, {
    message: `only ${before.join()} to be left: ${resources().join()}`,
  });
});

test('a handler that never ends does not keep close', async () => {
  const { url, prefix } = await testBroker();
  const { transport } = await connected(url);
  let called = false;
  await transport.subscribe(
    {
      service: prefix,
      bindings: [{ destination: prefix, messageTypes: [defaultType] }],
      ordered: true,
      maxBatch: 1,
      prefetch: 1,
    },
    () => {
      called = true;
      return new Promise(() => undefined);
    },
  );
  await waitFor(async () => (await transport.publish([messageTo(prefix)], never))[0]?.kind === 'confirmed', {
    message: 'a confirm',
  });
  await waitFor(() => called, { message: 'the handler' });
  expect(await closingTime(transport)).toBeLessThan(5000);
});
