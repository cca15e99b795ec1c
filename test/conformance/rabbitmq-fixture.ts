import { createTransport } from '@whizbang/transport-rabbitmq';
import { type ChannelModel, connect } from 'amqplib';
import { testBroker } from '../fixtures/test-services.js';
import type { RawConsumer, RawMessage, Topology, TransportFixture } from './fixture.js';
import { TcpGate } from '../fixtures/network/tcp-gate.js';

const secret = 'do-not-tell';
const maxMessageBytes = 2_000_000;

export interface RabbitmqMode {
  readonly queueType: 'classic' | 'quorum';
  readonly declare?: boolean;
  readonly mandatory?: boolean;
}

/** The RabbitMQ transport on the broker of the tests, with a cuttable connection; the fixture itself has a direct one. */
export function rabbitmqFixture(
  mode: string,
  { queueType, declare = true, mandatory = true }: RabbitmqMode,
): TransportFixture {
  let direct: ChannelModel | undefined;
  let gate: TcpGate | undefined;
  let gatedUrl = '';
  const broker = (): ChannelModel => {
    if (direct === undefined) throw new Error('the fixture is not open');
    return direct;
  };
  return {
    mode,
    deadlineMs: 15_000,
    capabilities: {
      durable: true,
      orderedStreams: true,
      atomicGroups: true,
      reportsUnroutable: mandatory,
      fanOut: true,
      competingConsumers: true,
      createsTopology: declare,
      maxMessageBytes,
    },
    secret,
    malformed: [
      `http://guest:${secret}@localhost`,
      `amqp://guest:${secret}@localhost:99999/`,
      `amqp://guest:${secret}@localhost/?queueType=both`,
      `amqp://guest:${secret}@localhost/?unknown=1`,
      `amqp//guest:${secret}@localhost`,
    ].map((text) => ({ why: text, create: () => createTransport(text) })),
    open: async () => {
      const { url } = await testBroker();
      direct = await connect(url);
      const address = new URL(url);
      gate = new TcpGate({ host: address.hostname, port: Number(address.port || 5672) });
      await gate.open();
      address.hostname = '127.0.0.1';
      address.port = String(gate.port);
      gatedUrl = address.href;
    },
    // Outages are short here, so waiting long to reconnect would only be waiting.
    createTransport: async () =>
      createTransport(`${gatedUrl}?queueType=${queueType}`, {
        declare,
        mandatory,
        maxMessageBytes,
        confirmTimeoutMs: 5000,
        reconnectDelayMs: 50,
        reconnectMaxDelayMs: 500,
      }),
    outage: async (during) => gate?.outage(during),
    stall: async (during) => gate?.stalled(during),
    takeBack: async () => gate?.cut(),
    createRefused: async () => {
      const refused = new URL(gatedUrl);
      refused.password = secret;
      return createTransport(refused.href);
    },
    inspect: (destination) => rawConsumer(broker(), destination),
    provide: (topology) => provide(broker(), queueType, topology),
    cleanUp: async ({ destinations, services }) => {
      const channel = await broker().createChannel();
      for (const service of services) await channel.deleteQueue(service);
      for (const destination of destinations) await channel.deleteExchange(destination);
      await channel.close();
    },
    close: async () => {
      await direct?.close();
      await gate?.close();
    },
  };
}

async function rawConsumer(broker: ChannelModel, destination: string): Promise<RawConsumer> {
  const messages: RawMessage[] = [];
  const listeners: (() => void)[] = [];
  const channel = await broker.createChannel();
  await channel.assertExchange(destination, 'topic', { durable: true });
  const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true });
  await channel.bindQueue(queue, destination, '#');
  const take = (messageId: string, body: Buffer): void => {
    messages.push({ messageId, body });
    for (const listener of listeners) listener();
  };
  await channel.consume(
    queue,
    (message) => message !== null && take(String(message.properties.messageId), message.content),
    { noAck: true },
  );
  return {
    messages: () => messages,
    onMessage: (listener) => void listeners.push(listener),
    close: () => channel.close(),
  };
}

async function provide(
  broker: ChannelModel,
  queueType: string,
  { service, bindings, ordered }: Topology,
): Promise<void> {
  const channel = await broker.createChannel();
  const queueArguments = { 'x-queue-type': queueType, ...(ordered ? { 'x-single-active-consumer': true } : {}) };
  await channel.assertQueue(service, { durable: true, arguments: queueArguments });
  for (const { destination, messageTypes } of bindings) {
    await channel.assertExchange(destination, 'topic', { durable: true });
    for (const type of messageTypes) await channel.bindQueue(service, destination, type);
  }
  await channel.close();
}
