import { setTimeout as delay } from 'node:timers/promises';

import { type ChannelModel, connect } from 'amqplib';

import { startRabbitmq } from '../../../fixtures/index.js';
import { TcpGate } from '../../../fixtures/network/tcp-gate.js';
import { askManagement } from '../../../fixtures/rabbitmq/virtual-hosts.js';
import { durableWitness } from '../../brokers/rabbitmq.js';
import type { FaultBrokerKind } from '../fault-broker.js';
import type { Fault } from '../fault.js';

const youthMs = 15_000;
const everything = { configure: '.*', write: '.*', read: '.*' };

export const rabbitmq: FaultBrokerKind = {
  name: 'RabbitMQ',
  start: async (destination) => {
    const server = await startRabbitmq({ private: true, management: true });
    const witness = await durableWitness(server.url, destination);
    const startedAt = performance.now();
    const { username, hostname, port } = new URL(server.url);
    const target = { host: hostname, port: Number(port) };
    // Over HTTP: a call of rabbitmqctl costs a second of the processor.
    const manage = (method: 'PUT' | 'DELETE', path: string, body?: object): Promise<void> =>
      askManagement(server.managementUrl ?? '', method, `api/${path}`, body);
    const repeats = true;
    const faults: Fault[] = [
      {
        name: 'RabbitMQ restarted',
        slow: true,
        weight: 1,
        lasts: [0, 0],
        repeats,
        strike: async () => {
          await server.restart();
          return { on: 'in order', undo: async () => undefined };
        },
      },
      {
        name: 'RabbitMQ killed',
        slow: true,
        weight: 1,
        lasts: [0, 3_000],
        repeats,
        strike: async () => {
          // As long as its queues are young, a kill would lose them; see flushDirectory.
          await delay(Math.max(0, startedAt + youthMs - performance.now()));
          await server.kill();
          return { on: 'SIGKILL', undo: () => server.start() };
        },
      },
      {
        name: 'RabbitMQ: memory alarm',
        slow: true,
        weight: 1,
        lasts: [500, 5_000],
        repeats,
        strike: async () => {
          await server.ctl('set_vm_memory_high_watermark', 'absolute', '1');
          return {
            on: 'all publishers',
            undo: async () => void (await server.ctl('set_vm_memory_high_watermark', '0.8')),
          };
        },
      },
      {
        name: 'RabbitMQ: reject-publish',
        weight: 2,
        lasts: [500, 4_000],
        repeats,
        strike: async () => {
          const definition = { 'max-length': 0, overflow: 'reject-publish' };
          const full = { pattern: '^shipping$', definition, 'apply-to': 'queues' };
          await manage('PUT', 'policies/%2F/full', full);
          return { on: 'the queue of shipping', undo: () => manage('DELETE', 'policies/%2F/full') };
        },
      },
      {
        name: 'RabbitMQ: permission taken',
        weight: 2,
        lasts: [500, 4_000],
        repeats,
        strike: async (_, random) => {
          const taken = random.pick(['configure', 'write', 'read']);
          await manage('PUT', `permissions/%2F/${username}`, { ...everything, [taken]: '^$' });
          return { on: taken, undo: () => manage('PUT', `permissions/%2F/${username}`, everything) };
        },
      },
      {
        name: 'RabbitMQ: connections closed',
        weight: 2,
        lasts: [0, 500],
        repeats,
        strike: async () => {
          const { username: user, password } = new URL(server.url);
          const headers = { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` };
          const base = (server.managementUrl ?? '').replace(/\/\/[^/]*@/, '//');
          const response = await fetch(`${base}/api/connections`, { headers });
          const known = (await response.json()) as readonly { readonly name: string }[];
          for (const { name } of known) {
            await fetch(`${base}/api/connections/${encodeURIComponent(name)}`, { method: 'DELETE', headers });
          }
          return { on: `${known.length}`, undo: async () => undefined };
        },
      },
    ];
    return {
      brokerOptions: {
        heartbeatSeconds: 2,
        confirmTimeoutMs: 3_000,
        connectTimeoutMs: 2_000,
        reconnectDelayMs: 50,
        reconnectMaxDelayMs: 1_000,
      },
      faults,
      way: async () => {
        const gate = new TcpGate(target);
        await gate.open();
        const url = new URL(server.url);
        url.hostname = '127.0.0.1';
        url.port = String(gate.port);
        return { url: url.href, gate };
      },
      seen: () => witness.seen(0),
      leftovers: async () => {
        const connections = (await server.ctl('list_connections', 'name', '--no-table-headers')).trim();
        const model: ChannelModel = await connect(server.url);
        const channel = await model.createChannel();
        const { messageCount } = await channel.checkQueue('shipping');
        await model.close();
        return [
          ...(connections === '' ? [] : [`connections of RabbitMQ: ${connections}`]),
          ...(messageCount === 0 ? [] : [`${messageCount} messages in the queue of shipping`]),
        ];
      },
      stop: () => server.stop(),
    };
  },
};
