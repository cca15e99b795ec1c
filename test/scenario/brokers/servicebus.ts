import { randomUUID } from 'node:crypto';

import { ServiceBusClient, type ServiceBusReceivedMessage } from '@azure/service-bus';

import { type ServicebusServer, startServicebus } from '../../fixtures/index.js';
import { atEnd } from '../test-service.js';
import type { BrokerKind, BrokerWitness, ForeignEvent, SeenMessage } from './scenario-broker.js';

export const servicebus: BrokerKind = {
  name: 'Service Bus',
  shared: async () => {
    const server = await startServicebus();
    atEnd(() => server.stop());
    const { connectionString, managementEndpoint } = server;
    return {
      url:
        managementEndpoint === undefined
          ? connectionString
          : `${connectionString};AdministrationEndpoint=${managementEndpoint}`,
      witness: (destination) => witness(server, destination),
      send: (destination, event) => send(connectionString, destination, event),
    };
  },
};

/** A subscription of its own, without sessions: it gets what the topic takes, in its order. */
async function witness(server: ServicebusServer, topic: string): Promise<BrokerWitness> {
  const name = `witness-${randomUUID()}`;
  await server.createTopic(topic);
  await server.createSubscription(topic, name);
  const client = new ServiceBusClient(server.connectionString);
  const seen: SeenMessage[] = [];
  const receiver = client.createReceiver(topic, name, { receiveMode: 'receiveAndDelete' });
  receiver.subscribe(
    { processMessage: async (message) => void seen.push(seenMessage(message)), processError: async () => undefined },
    { maxConcurrentCalls: 200 },
  );
  return { seen, [Symbol.asyncDispose]: () => client.close() };
}

const attribute = /^cloudEvents[_:]/;

function seenMessage({ applicationProperties, body, contentType }: ServiceBusReceivedMessage): SeenMessage {
  const all = Object.entries((applicationProperties ?? {}) as Record<string, string>);
  const attributes = Object.fromEntries(
    all.filter(([name]) => attribute.test(name)).map(([name, value]) => [name.replace(attribute, ''), value]),
  );
  return {
    messageId: attributes['id'] ?? '',
    type: attributes['type'] ?? '',
    body: Buffer.isBuffer(body) ? body.toString() : JSON.stringify(body),
    attributes: { ...attributes, datacontenttype: contentType ?? '' },
    headers: Object.fromEntries(all.filter(([name]) => !attribute.test(name))),
  };
}

async function send(
  connectionString: string,
  topic: string,
  { attributes, headers, body }: ForeignEvent,
): Promise<void> {
  const client = new ServiceBusClient(connectionString);
  const prefixed = Object.entries(attributes).map(([name, value]): [string, string] => [`cloudEvents:${name}`, value]);
  const { id, type, partitionkey } = attributes;
  await client.createSender(topic).sendMessages({
    body: Buffer.from(body),
    contentType: 'application/json',
    ...(id === undefined ? {} : { messageId: id }),
    ...(type === undefined ? {} : { subject: type }),
    ...(partitionkey === undefined ? {} : { sessionId: partitionkey }),
    applicationProperties: { ...Object.fromEntries(prefixed), ...headers },
  });
  await client.close();
}
