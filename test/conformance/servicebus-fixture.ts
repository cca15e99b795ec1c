import { setTimeout as delay } from 'node:timers/promises';
import { createTransport } from '@whizbang/transport-servicebus';
import { conditions } from '../fixtures/servicebus/stand-in/conditions.js';
import type { Fault } from '../fixtures/servicebus/stand-in/faults.js';
import { ServicebusStandIn } from '../fixtures/servicebus/stand-in/stand-in.js';
import type { RawConsumer, Topology, TransportFixture } from './fixture.js';

const secret = 'do-not-tell';
const maxMessageBytes = 2_000_000;
// Bodies come with headers.
const maxMessageSizeInKilobytes = 2_200;

export interface ServicebusMode {
  readonly entity?: 'topic' | 'queue';
  readonly sessions?: boolean;
  readonly declare?: boolean;
}

/** The Service Bus transport on a stand-in of its own, which can be cut off. */
export function servicebusFixture(
  mode: string,
  { entity = 'topic', sessions = true, declare = true }: ServicebusMode,
): TransportFixture {
  let standIn: ServicebusStandIn | undefined;
  const broker = (): ServicebusStandIn => {
    if (standIn === undefined) throw new Error('the fixture is not open');
    return standIn;
  };
  const whileFaulty = async (fault: Fault, during: () => Promise<void>): Promise<void> => {
    const active = broker().faults.inject(fault);
    try {
      await during();
    } finally {
      active.clear();
    }
  };
  const provideDestination = async (destination: string): Promise<void> => {
    if (broker().namespace.find(destination) !== undefined) return;
    const options = { maxMessageSizeInKilobytes };
    if (entity === 'topic') await broker().createTopic(destination, options);
    else await broker().createQueue(destination, { ...options, requiresSession: sessions, maxDeliveryCount: 2000 });
  };
  return {
    mode,
    deadlineMs: 20_000,
    capabilities: {
      durable: true,
      orderedStreams: sessions,
      atomicGroups: true,
      reportsUnroutable: false,
      fanOut: entity === 'topic',
      competingConsumers: entity === 'topic' || !sessions,
      createsTopology: declare,
      maxMessageBytes,
    },
    secret,
    malformed: [
      `Endpoint=http://localhost;SharedAccessKeyName=root;SharedAccessKey=${secret}`,
      `Endpoint=sb://localhost;SharedAccessKey=${secret}`,
      `Endpoint=sb://localhost;SharedAccessKeyName=root;SharedAccessKey=${secret};Sessions=perhaps`,
      `Endpoint=sb://localhost;SharedAccessKeyName=root;SharedAccessKey=${secret};unknown=1`,
      `Endpoint=sb://localhost;SharedAccessKeyName=root;SharedAccessKey=half;${secret}`,
      `sb://root:${secret}@localhost`,
      'sb://localhost',
    ].map((text) => ({ why: text, create: () => createTransport(text) })),
    open: async () => {
      standIn = await ServicebusStandIn.start();
    },
    // Outages are short here, so waiting long to reconnect would only be waiting.
    createTransport: async () =>
      createTransport(broker().connectionString, {
        entity,
        sessions,
        declare,
        administrationEndpoint: broker().managementEndpoint,
        maxMessageBytes,
        sendTimeoutMs: 3000,
        reconnectDelayMs: 50,
        reconnectMaxDelayMs: 500,
      }),
    outage: (during) => broker().outage(during),
    restart: () => broker().restart(),
    ...(mode === 'topic with sessions' ? { absence: (awayMs) => broker().outage(() => delay(awayMs)) } : {}),
    // What was sent is stored, and the answer never comes.
    stall: (during) => whileFaulty({ on: 'send', effect: { kind: 'silence', applied: true } }, during),
    throttle: (during) =>
      whileFaulty({ on: 'send', effect: { kind: 'refuse', error: conditions.serverBusy(1) } }, during),
    takeBack: async ({ service, bindings }) => {
      for (const { destination } of bindings) {
        broker().loseLocks(entity === 'topic' ? `${destination}/Subscriptions/${service}` : destination);
      }
    },
    createRefused: async () =>
      createTransport(broker().connectionString.replace(/SharedAccessKey=[^;]*/, `SharedAccessKey=${secret}`)),
    inspect: async (destination) => {
      await provideDestination(destination);
      return rawConsumer(broker(), destination);
    },
    provide: async ({ service, bindings, ordered }: Topology) => {
      for (const { destination } of bindings) {
        await provideDestination(destination);
        const isMissing = broker().namespace.find(`${destination}/Subscriptions/${service}`) === undefined;
        if (entity === 'topic' && isMissing) {
          const requiresSession = sessions && ordered;
          await broker().createSubscription(destination, service, { requiresSession, maxDeliveryCount: 2000 });
        }
      }
    },
    cleanUp: async ({ destinations }) => {
      for (const destination of destinations) await broker().deleteEntity(destination);
    },
    close: async () => standIn?.stop(),
  };
}

function rawConsumer(broker: ServicebusStandIn, destination: string): RawConsumer {
  const inspection = broker.inspect(destination);
  return {
    messages: () => inspection.messages().map(({ messageId, body }) => ({ messageId: String(messageId), body })),
    onMessage: (listener) => inspection.onMessage(listener),
    close: async () => inspection.close(),
  };
}
