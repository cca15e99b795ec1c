import { setTimeout as delay } from 'node:timers/promises';
import { type AddressInfo, type Server, type Socket, createServer } from 'node:net';
import { createTransport } from '@whizbang/transport-rabbitmq';
import { expect, onTestFinished, test } from 'vitest';
import { defaultType, messageTo } from '../conformance/messages.js';
import { waitFor } from '../fixtures/wait-for.js';
import { testBroker } from '../fixtures/test-services.js';
import { never, outcomeText } from '../fixtures/watched-transport.js';
import { connected, connecting, rawChannel } from './connected.js';
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

/** The shared broker through a gate of one's own. */
async function gated(): Promise<{ gate: TcpGate; url: string; direct: string; prefix: string }> {
  const { url, prefix } = await testBroker();
  const through = new URL(url);
  const gate = new TcpGate({ host: through.hostname, port: Number(through.port) });
  await gate.open();
  onTestFinished(() => gate.close());
  through.hostname = '127.0.0.1';
  through.port = String(gate.port);
  return { gate, url: through.href, direct: url, prefix };
}

test('after forty cuts at any moment there is one consumer, no listener more than at first, and each message arrives', async () => {
  const { gate, url, direct, prefix } = await gated();
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  const { transport, isReady } = await connected(url, { reconnectDelayMs: 5, reconnectMaxDelayMs: 20 });
  const accepted = new Set<string | undefined>();
  const request = {
    service: prefix,
    bindings: [{ destination: prefix, messageTypes: [defaultType] }],
    ordered: true,
    maxBatch: 10,
    prefetch: 10,
  };
  await transport.subscribe(request, async (deliveries) => {
    for (const { attributes } of deliveries) accepted.add(attributes['id']);
  });
  await waitFor(async () => (await transport.publish([messageTo(prefix)], never))[0]?.kind === 'confirmed', {
    message: 'a confirm',
  });
  const confirmed: string[] = [];
  for (let cut = 0; cut < 40; cut += 1) {
    // Somewhere in the handshake, the declarations, the first messages, or a connection at rest.
    await delay(Math.random() * 30);
    const message = messageTo(prefix);
    const publishing = transport.publish([message], never);
    await delay(Math.random() * 10);
    gate.cut();
    if ((await publishing)[0]?.kind === 'confirmed') confirmed.push(message.messageId);
  }
  await isReady();
  const last = messageTo(prefix);
  await waitFor(async () => (await transport.publish([last], never))[0]?.kind === 'confirmed', {
    message: 'a confirm after the cuts',
  });
  await waitFor(() => accepted.has(last.messageId) && confirmed.every((id) => accepted.has(id)), {
    message: 'everything that was confirmed',
    timeoutMs: 30_000,
  });
  const observer = await rawChannel(direct);
  await waitFor(async () => (await observer.checkQueue(prefix)).consumerCount === 1, {
    message: 'one consumer, as the broker counts them',
  });
  expect(warnings).toEqual([]);
});

test('a subscription that is closed while the broker is away does not come back with it', async () => {
  const { gate, url, direct, prefix } = await gated();
  const { transport, isReady } = await connected(url);
  const deliveries: unknown[] = [];
  const request = {
    service: prefix,
    bindings: [{ destination: prefix, messageTypes: [defaultType] }],
    ordered: true,
    maxBatch: 10,
    prefetch: 10,
  };
  const subscription = await transport.subscribe(request, async (batch) => void deliveries.push(...batch));
  const observer = await rawChannel(direct);
  await waitFor(async () => (await transport.publish([messageTo(prefix)], never))[0]?.kind === 'confirmed', {
    message: 'a confirm',
  });
  await waitFor(() => deliveries.length === 1, { message: 'the first message' });
  // What it has accepted must be at the broker, or it comes again. An acknowledgement has no answer; what is sent behind it has.
  await subscription.close();
  const second = await transport.subscribe(request, async (batch) => void deliveries.push(...batch));
  await waitFor(async () => (await observer.checkQueue(prefix)).consumerCount === 1, {
    message: 'the second consumer',
  });
  await gate.outage(async () => {
    await isReady(false);
    await second.close();
  });
  await isReady();
  expect((await transport.publish([messageTo(prefix)], never)).map((outcome) => outcomeText(outcome))).toEqual([
    'confirmed',
  ]);
  expect(await observer.checkQueue(prefix)).toMatchObject({ consumerCount: 0, messageCount: 1 });
  expect(deliveries).toHaveLength(1);
});

test('after seconds in which this process did nothing but compute, it publishes and receives again', async () => {
  const { url, prefix } = await testBroker();
  const { transport } = await connected(url, { heartbeatSeconds: 1 });
  const accepted = new Set<string | undefined>();
  await transport.subscribe(
    {
      service: prefix,
      bindings: [{ destination: prefix, messageTypes: [defaultType] }],
      ordered: true,
      maxBatch: 10,
      prefetch: 10,
    },
    async (deliveries) => {
      for (const { attributes } of deliveries) accepted.add(attributes['id']);
    },
  );
  await waitFor(async () => (await transport.publish([messageTo(prefix)], never))[0]?.kind === 'confirmed', {
    message: 'a confirm',
  });
  // The broker ends a connection after two of its heartbeats have been missed.
  const endMs = performance.now() + 5000;
  while (performance.now() < endMs);
  const message = messageTo(prefix);
  await waitFor(async () => (await transport.publish([message], never))[0]?.kind === 'confirmed', {
    message: 'a confirm afterwards',
    timeoutMs: 30_000,
  });
  await waitFor(() => accepted.has(message.messageId), { message: 'the message', timeoutMs: 30_000 });
  expect(transport.ready()).toBe(true);
});
