import { ConfigurationError, type SubscriptionRequest } from '@whizbang/core/transport';
import { expect, test } from 'vitest';
import { refuseMalformed } from './subscription-request.js';

const request: SubscriptionRequest = {
  service: 'shipping',
  bindings: [{ destination: 'orders', messageTypes: ['orders.placed'] }],
  ordered: true,
  maxBatch: 10,
  prefetch: 20,
};
const topics = { entity: 'topic', sessions: true } as const;

test('names that the broker takes', () => {
  for (const service of ['s', 'shipping', 'shipping-service_2.eu', 'x'.repeat(50)]) {
    expect(() => refuseMalformed({ ...request, service }, topics)).not.toThrow();
  }
});

test('everything that is wrong at once', () => {
  const malformed = {
    ...request,
    service: 'x'.repeat(51),
    bindings: [{ destination: 'orders?', messageTypes: [''] }],
    maxBatch: 0,
    prefetch: 1.5,
  };
  expect(() => refuseMalformed(malformed, topics)).toThrow(
    /service: .*1 to 50 characters; this one has 51.*bindings\.0\.destination: .*messageTypes\.0: .*maxBatch: .*prefetch: /,
  );
});

test('order without sessions is refused, with what to do instead', () => {
  const unordered = { entity: 'topic', sessions: false } as const;
  expect(() => refuseMalformed(request, unordered)).toThrow(ConfigurationError);
  expect(() => refuseMalformed(request, unordered)).toThrow(/receiver: \{ parallel: true \}/);
  refuseMalformed({ ...request, ordered: false }, unordered);
});

test('a queue has no subscription whose name could be too long', () => {
  const queues = { entity: 'queue', sessions: true } as const;
  expect(() => refuseMalformed({ ...request, service: 'x'.repeat(200) }, queues)).not.toThrow();
});
