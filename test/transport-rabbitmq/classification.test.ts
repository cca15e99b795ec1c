import { createServer } from 'node:net';
import { type Channel, type ChannelModel, type ConfirmChannel, type Options, connect } from 'amqplib';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { byName, byReplyCode } from '../../packages/transport-rabbitmq/src/classification.js';
import { type Stage, classify } from '../../packages/transport-rabbitmq/src/errors.js';
import { TcpGate } from '../fixtures/network/tcp-gate.js';
import { freePorts } from '../fixtures/processes/free-ports.js';
import { type RabbitmqServer, startRabbitmq } from '../fixtures/index.js';

let server: RabbitmqServer;

beforeAll(async () => {
  server = await startRabbitmq({ private: true, config: ['max_message_size = 100000'] });
});
afterAll(async () => {
  await server?.stop();
});

const row = { ...byReplyCode, ...byName };
type Raise = () => Promise<unknown>;

/** A plain connection; its end is the business of each row. */
async function connection(query = '', url = server.url): Promise<ChannelModel> {
  const model = await connect(`${url}${query}`, { noDelay: true });
  model.on('error', () => undefined);
  onTestFinished(() => model.close().catch(() => undefined));
  return model;
}

async function channel(): Promise<Channel> {
  const opened = await (await connection()).createChannel();
  opened.on('error', () => undefined);
  return opened;
}

async function confirmChannel(model?: ChannelModel): Promise<ConfirmChannel> {
  const opened = await (model ?? (await connection())).createConfirmChannel();
  opened.on('error', () => undefined);
  return opened;
}

const rejection = (promise: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(promise).then(
    () => 'nothing was refused',
    (error: unknown) => error,
  );
const thrown = (call: () => unknown): unknown => {
  try {
    call();
    return 'nothing was thrown';
  } catch (error) {
    return error;
  }
};
const emitted = (emitter: NodeJS.EventEmitter, event: string): Promise<unknown> =>
  new Promise((resolve) => void emitter.once(event, resolve));

/** What a connection attempt is answered with. */
const connecting = (url: string, options?: object): Promise<unknown> => rejection(connect(url, options));
const changed = (change: (url: URL) => void): string => {
  const url = new URL(server.url);
  change(url);
  return url.href;
};
/** What the channel is closed for after a publish. */
async function closedAfter(body: Buffer, options: Options.Publish, exchange = ''): Promise<unknown> {
  const publishing = await channel();
  const error = emitted(publishing, 'error');
  publishing.publish(exchange, 'nowhere', body, options);
  return error;
}
/** What a confirm is answered with. */
const unconfirmed = (on: ConfirmChannel, queue: string, options: Options.Publish = {}): Promise<unknown> =>
  new Promise((resolve) => void on.publish('', queue, Buffer.from('x'), options, resolve));

const raised: [id: keyof typeof row, how: string, raise: Raise, stage?: Stage][] = [
  [
    '320',
    'an operator closes the connection',
    async () => {
      const closed = emitted(await connection(), 'close');
      await server.ctl('close_all_connections', 'test');
      return closed;
    },
  ],
  ['403', 'a wrong password', () => connecting(changed((url) => (url.password = 'wrong')))],
  ['404', 'a missing exchange', () => closedAfter(Buffer.from('x'), {}, 'missing')],
  ['404', 'a missing queue', async () => rejection((await channel()).checkQueue('missing'))],
  [
    '405',
    'an exclusive queue of another connection',
    async () => {
      const { queue } = await (await channel()).assertQueue('', { exclusive: true });
      return rejection((await channel()).checkQueue(queue));
    },
  ],
  [
    'preconditionFailed',
    'a queue that exists with other properties',
    async () => {
      await (await channel()).assertQueue('durable', { durable: true });
      return rejection((await channel()).assertQueue('durable', { durable: false }));
    },
  ],
  ['messageTooLargeForBroker', 'a body over max_message_size', () => closedAfter(Buffer.alloc(100_001), {})],
  [
    'unknownDeliveryTag',
    'an acknowledgement that nobody waits for',
    async () => {
      const acking = await channel();
      const error = emitted(acking, 'error');
      acking.ack({ fields: { deliveryTag: 7 } } as Parameters<Channel['ack']>[0]);
      return error;
    },
  ],
  [
    'frameTooLarge',
    'headers beyond the negotiated frame',
    async () => {
      const model = await connection('?frameMax=8192');
      const error = emitted(model, 'error');
      const publishing = await confirmChannel(model);
      publishing.publish('', 'nowhere', Buffer.from('x'), { headers: { large: 'x'.repeat(20_000) } });
      return error;
    },
  ],
  [
    '530',
    'one consumer tag twice',
    async () => {
      const consuming = await channel();
      const { queue } = await consuming.assertQueue('', { exclusive: true });
      await consuming.consume(queue, () => undefined, { consumerTag: 'twice' });
      const closed = emitted(consuming.connection as unknown as NodeJS.EventEmitter, 'error');
      await rejection(consuming.consume(queue, () => undefined, { consumerTag: 'twice' }));
      return closed;
    },
  ],
  [
    'nacked',
    'a full queue that rejects',
    async () => {
      const publishing = await confirmChannel();
      const options = { arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } };
      const { queue } = await publishing.assertQueue('full', options);
      await unconfirmed(publishing, queue);
      return unconfirmed(publishing, queue);
    },
  ],
  [
    'unreachable',
    'a port that nobody listens on',
    async () => connecting(`amqp://127.0.0.1:${(await freePorts(1))[0]}`),
  ],
  [
    'noHandshake',
    'a host that hangs up',
    async () => {
      const rude = createServer((socket) => void socket.resume().end()).listen(0, '127.0.0.1');
      await emitted(rude, 'listening');
      onTestFinished(() => void rude.close());
      return connecting(`amqp://127.0.0.1:${(rude.address() as { port: number }).port}`);
    },
  ],
  ['vhostRefused', 'a vhost that does not exist', () => connecting(changed((url) => (url.pathname = '/missing')))],
  [
    'mechanismRefused',
    'a SASL mechanism that it does not have',
    () => {
      const credentials = { mechanism: 'NONE', response: () => Buffer.from('') };
      return connecting(server.url, { credentials });
    },
  ],
  ['tls', 'TLS with a port that speaks none', () => connecting(changed((url) => void (url.protocol = 'amqps:')))],
  ['wrongProtocol', 'a URL of another protocol', () => connecting('http://localhost')],
  [
    'noChannelLeft',
    'a channel more than allowed',
    async () => {
      const model = await connection('?channelMax=1');
      await model.createChannel();
      return rejection(Promise.resolve().then(() => model.createChannel()));
    },
  ],
  [
    'channelClosed',
    'publishing on a closed channel',
    async () => {
      const closed = await channel();
      await closed.close();
      return thrown(() => closed.publish('', 'q', Buffer.from('x')));
    },
  ],
  [
    'notABuffer',
    'a text as the body',
    async () => {
      const publishing = await channel();
      return thrown(() => publishing.publish('', 'q', 'text' as unknown as Buffer));
    },
  ],
  [
    'wrongField',
    'a type that is a number',
    async () => {
      const publishing = await channel();
      return thrown(() => publishing.publish('', 'q', Buffer.from('x'), { type: 5 as unknown as string }));
    },
  ],
  [
    'headersTooLarge',
    '70 KB of headers',
    async () => {
      const publishing = await channel();
      return thrown(() => publishing.publish('', 'q', Buffer.from('x'), { headers: { large: 'x'.repeat(70_000) } }));
    },
  ],
  [
    'lostIdle',
    'a call while the connection is cut',
    async () => {
      const { gate, model } = await gated();
      const calling = await model.createChannel();
      calling.on('error', () => undefined);
      gate.stall();
      const answer = rejection(calling.checkExchange('amq.topic'));
      gate.cut();
      return answer;
    },
  ],
  [
    'lostInFlight',
    'a message on the way while the connection is cut',
    async () => {
      const { gate, model } = await gated();
      const publishing = await confirmChannel(model);
      gate.stall();
      const answer = unconfirmed(publishing, 'nowhere');
      gate.cut();
      return answer;
    },
    'inFlight',
  ],
];

/** A connection that can be cut. */
async function gated(): Promise<{ gate: TcpGate; model: ChannelModel }> {
  const gate = new TcpGate({ host: '127.0.0.1', port: Number(new URL(server.url).port) });
  await gate.open();
  onTestFinished(() => gate.close());
  const model = await connection(
    '',
    changed((url) => (url.port = String(gate.port))),
  );
  return { gate, model };
}

test.each(raised)('row %s, raised by %s', async (id, _, raise, stage) => {
  expect(classify(await raise(), stage)).toBe(row[id]);
});
