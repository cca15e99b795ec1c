import { randomUUID } from 'node:crypto';

import { ServiceBusClient } from '@azure/service-bus';

import { type ServicebusServer, startServicebus, withAdministration } from '../../fixtures/index.js';
import { type SeenServicebusMessage, ServicebusWitness } from '../../fixtures/servicebus/servicebus-witness.js';
import { ServicebusStandIn } from '../../fixtures/servicebus/stand-in/stand-in.js';
import { atEnd } from '../test-service.js';
import { partHeaders } from './binary-mode.js';
import {
  type BrokerKind,
  type BrokerWitness,
  type ForeignEvent,
  type SeenMessage,
  outagePace,
} from './scenario-broker.js';

export const servicebus: BrokerKind = {
  name: 'Service Bus',
  shared: async () => {
    const server = await startServicebus();
    atEnd(() => server.stop());
    return {
      url: withAdministration(server),
      witness: (destination) => witness(server, destination),
      send: (destination, event) => send(server.connectionString, destination, event),
    };
  },
  fragile: async () => {
    const standIn = await ServicebusStandIn.start();
    atEnd(() => standIn.stop());
    let comeBack = (): void => undefined;
    let outage = Promise.resolve();
    return {
      url: withAdministration(standIn),
      brokerOptions: {
        sendTimeoutMs: Math.round(10_000 / outagePace),
        connectTimeoutMs: Math.round(10_000 / outagePace),
        reconnectDelayMs: Math.round(200 / outagePace),
        reconnectMaxDelayMs: 30_000 / outagePace,
      },
      witness: async (destination) => {
        await standIn.createTopic(destination);
        const inspection = standIn.inspect(destination);
        return {
          seen: async () =>
            inspection.messages().map(({ messageId, body }) => ({ messageId: messageId ?? '', body: body.toString() })),
        };
      },
      stop: async () => {
        outage = standIn.outage(() => new Promise((resolve) => (comeBack = resolve)));
      },
      start: async () => {
        comeBack();
        await outage;
      },
    };
  },
};

/** A subscription of its own, without sessions: it gets what the topic takes, in its order. */
async function witness(server: ServicebusServer, topic: string): Promise<BrokerWitness> {
  const subscription = `witness-${randomUUID()}`;
  await server.createTopic(topic);
  await server.createSubscription(topic, subscription);
  const reader = await ServicebusWitness.create(server.connectionString, topic, subscription);
  return {
    get seen() {
      return reader.seen.map(seenMessage);
    },
    [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
  };
}

function seenMessage({
  messageId,
  type,
  body,
  contentType,
  applicationProperties,
}: SeenServicebusMessage): SeenMessage {
  const { attributes, headers } = partHeaders(applicationProperties, /^cloudEvents[_:]/);
  return { messageId, type, body, attributes: { ...attributes, datacontenttype: contentType ?? '' }, headers };
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
