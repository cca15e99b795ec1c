import type { ServiceBusReceivedMessage } from '@azure/service-bus';
import type { Delivery } from '@whizbang/core/transport';
import { decodeProperties } from './headers.js';

/** A delivery that the broker has locked for us. */
export interface HeldDelivery {
  readonly delivery: Delivery;
  /** The lock is gone: the broker delivers it again, to us or to somebody else. */
  readonly lost: boolean;
  /** It was handed over, and rejected. Set by whoever hands over. */
  tried: boolean;
  /** It is done with. Never rejects: what cannot be completed comes again. */
  complete(): Promise<void>;
}

/** The message as core takes it. */
export function decodeDelivery(message: ServiceBusReceivedMessage, destination: string): Delivery {
  return {
    ...decodeProperties(message),
    body: bodyOf(message.body),
    destination,
    redelivered: (message.deliveryCount ?? 0) > 0,
  };
}

/** Bytes as they are, in one section or several; values of other AMQP types as text or JSON. */
function bodyOf(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body;
  if (Array.isArray(body) && body.every((part) => Buffer.isBuffer(part))) return Buffer.concat(body);
  if (body === undefined || body === null) return Buffer.alloc(0);
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

/**
 * Whether a service wants a delivery. One that names no type is wanted by everybody: core keeps what it cannot read.
 */
export function isWanted({ attributes }: Delivery, messageTypes: ReadonlySet<string>): boolean {
  const { type } = attributes;
  return type === undefined || type === '' || messageTypes.has(type);
}

/** When to renew a lock: after a third of it at the latest, unless the broker's clock and ours make nonsense of that. */
export function renewalMs(lockedUntil: Date | undefined, most: number): number {
  if (lockedUntil === undefined) return most;
  return Math.min(most, Math.max(500, (lockedUntil.getTime() - Date.now()) / 3));
}
