import type { SubscriptionRequest } from '@whizbang/core/transport';
import { type KafkaTransportOptions, createTransport } from '@whizbang/transport-kafka';
import { defaultType } from '../conformance/messages.js';
import { type Watched, quickReconnect, watch, whenReady } from '../fixtures/watched-transport.js';

/** A transport that is closed at the end of the test. It is connecting, and need not have reached the broker. */
export function connecting(url: string, options: KafkaTransportOptions = {}): Promise<Watched> {
  return watch(createTransport(url, { ...quickReconnect, ...options }));
}

export function connected(url: string, options: KafkaTransportOptions = {}): Promise<Watched> {
  return whenReady(connecting(url, options));
}

export function request(
  service: string,
  destination: string,
  parts: Partial<SubscriptionRequest> = {},
): SubscriptionRequest {
  const bindings = [{ destination, messageTypes: [defaultType] }];
  return { service, bindings, ordered: true, maxBatch: 50, prefetch: 200, ...parts };
}
