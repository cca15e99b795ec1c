import { randomUUID } from 'node:crypto';
import { InProcessBroker, type InProcessOptions, createInProcessTransport } from '@whizbang/core/testing';
import type { RawConsumer, RawMessage, TransportFixture } from './fixture.js';

/** The in-process transport with a broker of its own, in the mode that the options make. */
export function inProcessFixture(mode: string, options: InProcessOptions = {}): TransportFixture {
  const name = `conformance-${randomUUID()}`;
  const broker = InProcessBroker.named(name);
  return {
    mode,
    capabilities: {
      durable: false,
      orderedStreams: true,
      atomicGroups: true,
      reportsUnroutable: options.mandatory ?? true,
      fanOut: true,
      competingConsumers: true,
      createsTopology: options.declare ?? true,
      maxMessageBytes: options.maxMessageBytes ?? null,
    },
    malformed: ['memory:a b', 'memory://orders', 'memory:?unknown=1', 'memory:?maxMessageBytes=-1', ''].map((text) => ({
      why: `"${text}"`,
      create: () => createInProcessTransport(text),
    })),
    createTransport: async () => createInProcessTransport(`memory:${name}`, { ...options }),
    outage: (during) => broker.outage(during),
    takeBack: () => broker.outage(async () => undefined),
    inspect: async (destination) => tap(broker, destination),
    provide: async ({ service, bindings }) => void broker.declare(service, bindings),
    close: async () => InProcessBroker.remove(name),
  };
}

function tap(broker: InProcessBroker, destination: string): RawConsumer {
  const messages: RawMessage[] = [];
  const listeners: (() => void)[] = [];
  const stop = broker.tap(destination, (message) => {
    messages.push(message);
    for (const listener of listeners) listener();
  });
  return {
    messages: () => messages,
    onMessage: (listener) => void listeners.push(listener),
    close: async () => stop(),
  };
}
