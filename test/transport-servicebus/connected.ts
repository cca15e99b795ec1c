import type {
  Delivery,
  DeliveryHandler,
  SubscriptionRequest,
  Transport,
  TransportSubscription,
} from '@whizbang/core/transport';
import { type ServicebusTransportOptions, createTransport } from '@whizbang/transport-servicebus';
import { defaultType } from '../conformance/messages.js';
import type { ServicebusStandIn } from '../fixtures/servicebus/stand-in/stand-in.js';
import { type Watched, idOf, quickReconnect, watch, whenReady } from '../fixtures/watched-transport.js';

type Place = Pick<ServicebusStandIn, 'connectionString' | 'managementEndpoint'>;

/** A transport that is closed at the end of the test. It is connecting, and need not have reached the broker. */
export function connecting(
  { connectionString, managementEndpoint }: Place,
  options: ServicebusTransportOptions = {},
): Promise<Watched> {
  const place = { administrationEndpoint: managementEndpoint };
  return watch(createTransport(connectionString, { ...place, ...quickReconnect, ...options }));
}

export function connected(place: Place, options: ServicebusTransportOptions = {}): Promise<Watched> {
  return whenReady(connecting(place, options));
}

/** A subscription of service `shipping` that is established, and what it has been handed. */
export async function subscribed(
  transport: Transport,
  destination: string,
  request: Partial<SubscriptionRequest> = {},
  handler: DeliveryHandler = async () => undefined,
): Promise<{ readonly deliveries: Delivery[]; readonly subscription: TransportSubscription }> {
  const deliveries: Delivery[] = [];
  const subscription = await transport.subscribe(
    {
      service: 'shipping',
      bindings: [{ destination, messageTypes: [defaultType] }],
      ordered: true,
      maxBatch: 50,
      prefetch: 100,
      ...request,
    },
    async (batch) => {
      deliveries.push(...batch);
      await handler(batch);
    },
  );
  await subscription.established;
  return { deliveries, subscription };
}

export const idsOf = (deliveries: readonly Delivery[]): (string | undefined)[] => deliveries.map(idOf);
