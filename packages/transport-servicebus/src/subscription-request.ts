import { ConfigurationError, type SubscriptionRequest } from '@whizbang/core/transport';
import type { ServicebusSettings } from './options.js';
import { entityNameProblem } from './outgoing.js';

const maxSubscriptionNameLength = 50;

/** @throws ConfigurationError that names everything about the request that this broker, or its set-up, cannot do. */
export function refuseMalformed(
  { service, bindings, maxBatch, prefetch, ordered }: SubscriptionRequest,
  { entity, sessions }: Pick<ServicebusSettings, 'entity' | 'sessions'>,
): void {
  const violations: string[] = [];
  if (entity === 'queue') {
    // The service has no name at the broker: it receives from the queue itself.
  } else if (service.length < 1 || service.length > maxSubscriptionNameLength) {
    violations.push(
      `service: becomes the name of a subscription, which has 1 to ${maxSubscriptionNameLength} characters; this one has ${service.length}`,
    );
  } else if (!/^[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?$/.test(service)) {
    violations.push(
      'service: becomes the name of a subscription, which has letters, digits and . - _ only, and begins and ends with one of the first two',
    );
  }
  for (const [index, { destination, messageTypes }] of bindings.entries()) {
    const problem = entityNameProblem(destination);
    if (problem !== undefined) violations.push(`bindings.${index}.destination: ${problem}`);
    for (const [at, type] of messageTypes.entries()) {
      if (type === '') violations.push(`bindings.${index}.messageTypes.${at}: must not be empty`);
    }
  }
  for (const [path, value] of Object.entries({ maxBatch, prefetch })) {
    if (!Number.isInteger(value) || value < 1) violations.push(`${path}: must be a whole number from 1`);
  }
  if (ordered && !sessions) {
    violations.push(
      `ordered: Service Bus keeps the order of streams by sessions, and the option sessions is false; ` +
        `receive without order (receiver: { parallel: true }), or leave sessions at true` +
        (entity === 'topic' ? ' for topics whose subscriptions are to be in order' : ''),
    );
  }
  if (violations.length > 0) throw new ConfigurationError(`subscription to Service Bus: ${violations.join('; ')}`);
}
