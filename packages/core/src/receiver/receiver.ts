import { createHash } from 'node:crypto';
import { type ReceivedMessage, readDelivery } from '../contract/cloud-event.js';
import type { Logger } from '../contract/logger.js';
import { MessageFailureReason } from '../contract/message-failure-reason.js';
import { messageIdOf } from '../contract/stream-id.js';
import type { Delivery, Transport, TransportSubscription } from '../contract/transport.js';
import { failureText } from '../failure/failure-text.js';
import type { InboxStore, UndecodableDelivery } from '../inbox/inbox-store.js';
import { settlesWithin } from '../runtime/clock.js';
import type { InstanceIdentity } from '../runtime/instance-identity.js';
import { OutageLog } from '../runtime/outage-log.js';
import type { Instruments } from '../telemetry/instruments.js';

const establishMs = 3_000;

export interface ReceiverSettings {
  readonly service: string;
  readonly store: InboxStore;
  readonly transport: Transport;
  readonly identity: InstanceIdentity;
  readonly instruments: Instruments;
  readonly logger: Logger;
  readonly generation: string;
  /** Destinations and the message types wanted from each. */
  readonly bindings: readonly { readonly destination: string; readonly messageTypes: readonly string[] }[];
  readonly isHandled: (messageType: string) => boolean;
  readonly parallel: boolean;
  readonly batchSize: number;
  readonly prefetch: number;
  readonly unhandled: 'deadLetter' | 'discard';
  /** Called after messages were stored: a dispatcher in this process need not wait for a notification. */
  readonly onStored: () => void;
}

/**
 * Takes deliveries from the broker into the inbox. The transport acknowledges a batch after its rows have been committed;
 * when they cannot be, the batch is rejected and the broker delivers it again.
 */
export class Receiver {
  readonly #settings: ReceiverSettings;
  readonly #databaseOutage: OutageLog;
  /** Resolves when the broker first knows of the subscription; stays pending while it does not. */
  readonly established: Promise<void>;
  #establish: () => void = () => undefined;
  #subscription: TransportSubscription | undefined;

  constructor(settings: ReceiverSettings) {
    this.#settings = settings;
    this.established = new Promise((resolve) => {
      this.#establish = resolve;
    });
    this.#databaseOutage = new OutageLog(settings.logger, 'The receiver cannot use the database');
  }

  async start(): Promise<void> {
    const { transport, service, bindings, parallel, batchSize, prefetch } = this.#settings;
    this.#subscription = await transport.subscribe(
      { service, bindings, ordered: !parallel, maxBatch: batchSize, prefetch },
      (deliveries) => this.#receive(deliveries),
    );
    void this.#subscription.established.then(this.#establish);
    // Whoever publishes right after start() should find the queue; a broker that is away is not waited for.
    await settlesWithin(this.established, establishMs);
  }

  async stop(): Promise<void> {
    await this.#subscription?.close();
  }

  async #receive(deliveries: readonly Delivery[]): Promise<void> {
    try {
      await this.#store(deliveries);
      this.#databaseOutage.over();
    } catch (error) {
      this.#databaseOutage.noticed(error);
      throw error;
    }
  }

  async #store(deliveries: readonly Delivery[]): Promise<void> {
    const { store, service, instruments, isHandled, unhandled, logger, onStored } = this.#settings;
    const messages: ReceivedMessage[] = [];
    const kept: { delivery: UndecodableDelivery; reason: MessageFailureReason }[] = [];
    let discarded = 0;
    for (const delivery of deliveries) {
      try {
        const message = readDelivery(delivery);
        if (isHandled(message.messageType)) {
          messages.push(message);
        } else {
          discarded += 1;
          if (unhandled === 'deadLetter') {
            const error = `service '${service}' has no handler for '${message.messageType.slice(0, 200)}'`;
            kept.push({ delivery: keep(delivery, error), reason: MessageFailureReason.ValidationError });
          }
        }
      } catch (error) {
        kept.push({ delivery: keep(delivery, failureText(error)), reason: MessageFailureReason.SerializationError });
        instruments.add('undecodable', 1, { destination: delivery.destination });
        logger.error(
          { destination: delivery.destination, messageId: delivery.attributes['id'], error: failureText(error) },
          'A delivery could not be read; its bytes are kept in wh_dead_letters',
        );
      }
    }
    await this.#keep(kept);
    if (messages.length > 0) {
      const fresh = await store.store(messages, (messageType) => `${service}/${messageType}`);
      instruments.addByType('deduplicated', duplicatesOf(messages, fresh));
      if (fresh.size > 0) {
        onStored();
      }
    }
    instruments.addByType('received', messages);
    instruments.add('received', deliveries.length - messages.length, { message_type: 'unreadable or unhandled' });
    instruments.add('unhandled', discarded);
  }

  async #keep(kept: readonly { delivery: UndecodableDelivery; reason: MessageFailureReason }[]): Promise<void> {
    const { store, generation, identity } = this.#settings;
    for (const reason of new Set(kept.map((one) => one.reason))) {
      const deliveries = kept.filter((one) => one.reason === reason).map((one) => one.delivery);
      await store.storeUndecodable(deliveries, reason, generation, identity.current);
    }
  }
}

/** What was delivered beyond the first of each new id. */
function duplicatesOf(messages: readonly ReceivedMessage[], fresh: ReadonlySet<string>): ReceivedMessage[] {
  const seen = new Set<string>();
  return messages.filter(({ messageId }) => {
    const first = fresh.has(messageId) && !seen.has(messageId);
    seen.add(messageId);
    return !first;
  });
}

function keep(delivery: Delivery, error: string): UndecodableDelivery {
  const { id, source, type } = delivery.attributes;
  // A redelivery of the same bytes must find the row of the first.
  const digest = createHash('sha256')
    .update(delivery.destination)
    .update(JSON.stringify(delivery.attributes))
    .update(delivery.body);
  const text = (value: string | undefined) => (value ?? '').replaceAll('\0', '\uFFFD').toWellFormed();
  return {
    sourceId: messageIdOf(`${id ?? ''} ${digest.digest('hex')}`, source ?? ''),
    messageType: text(type) || 'unknown',
    destination: text(delivery.destination),
    body: delivery.body,
    metadata: JSON.stringify({ attributes: delivery.attributes, headers: delivery.headers }),
    error: text(error),
  };
}
