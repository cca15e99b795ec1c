import { settlesWithin } from '@whizbang/core/transport';
import type { ServiceBusReceivedMessage, ServiceBusReceiver } from '@azure/service-bus';
import type { LiveConnection } from './live-connection.js';

interface Source {
  /** Topic or queue. */
  readonly destination: string;
  /** The topic's subscription; undefined for a queue. */
  readonly subscription: string | undefined;
}

/** A receiver without sessions. It attaches when it is first used. */
export function openReceiver({ client }: LiveConnection, { destination, subscription }: Source): ServiceBusReceiver {
  const options = {
    // Ours keeps them by themselves; the SDK's takes message ids for keys, and needs them.
    maxAutoLockRenewalDurationInMs: 0,
    skipParsingBodyAsJson: true,
    skipConvertingDate: true,
  };
  return subscription === undefined
    ? client.createReceiver(destination, options)
    : client.createReceiver(destination, subscription, options);
}

/** The broker's number of a message. */
export type SequenceNumber = ServiceBusReceivedMessage['sequenceNumber'];

/**
 * The number of the first message that is there, locked or not; undefined when there is none.
 * @param from Where to begin. Without it the SDK goes on behind what was last looked at on this connection.
 * @throws when the subscription or queue is missing, or nobody answers
 */
export async function peek(live: LiveConnection, source: Source, from?: SequenceNumber): Promise<SequenceNumber> {
  const receiver = openReceiver(live, source);
  try {
    const options = { abortSignal: live.signal, ...(from === undefined ? undefined : { fromSequenceNumber: from }) };
    const [message] = await receiver.peekMessages(1, options);
    return message?.sequenceNumber;
  } finally {
    void settlesWithin(receiver.close(), 1000);
  }
}
