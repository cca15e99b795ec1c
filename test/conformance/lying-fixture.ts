import type { Delivery, DeliveryHandler, OutgoingMessage, PublishOutcome, Transport } from '@whizbang/core/transport';
import type { TransportFixture } from './fixture.js';
import { inProcessFixture } from './in-process-fixture.js';

type Publish = Transport['publish'];

/** What a liar does instead of one method; it is given the honest one. */
export interface Lie {
  publish?(honest: Publish, batch: readonly OutgoingMessage[], signal: AbortSignal): Promise<PublishOutcome[]>;
  handle?(deliveries: readonly Delivery[], handler: DeliveryHandler): Promise<void>;
  readonly ordered?: false;
  ready?(): boolean;
}

/** An in-process fixture whose transports tell the lie; without one, it is honest. */
export function lyingFixture(make: () => Lie): TransportFixture {
  const honest = inProcessFixture('lying', { maxMessageBytes: 2_000_000 });
  return {
    ...honest,
    // Most violations show as something that never happens.
    deadlineMs: 1_000,
    createTransport: async () => withLie(await honest.createTransport(), make()),
  };
}

function withLie(inner: Transport, lie: Lie): Transport {
  const honest: Publish = (batch, signal) => inner.publish(batch, signal);
  return {
    contractVersion: inner.contractVersion,
    name: inner.name,
    capabilities: inner.capabilities,
    connect: (context) => inner.connect(context),
    ready: () => lie.ready?.() ?? inner.ready(),
    publish: (batch, signal) => lie.publish?.(honest, batch, signal) ?? honest(batch, signal),
    subscribe: (request, handler) =>
      inner.subscribe(
        { ...request, ordered: lie.ordered ?? request.ordered },
        (deliveries) => lie.handle?.(deliveries, handler) ?? handler(deliveries),
      ),
    close: () => inner.close(),
  };
}
