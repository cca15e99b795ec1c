import { setTimeout as delay } from 'node:timers/promises';
import type { OutgoingMessage } from '@whizbang/core/transport';
import type { StagedTransport } from './staged-transport.js';

/**
 * Publishes messages of one stream until all are confirmed, through outages, as the publisher of core does: what is not
 * confirmed is sent again, and nothing of its stream before it.
 */
export async function publishSteadily(transport: StagedTransport, messages: readonly OutgoingMessage[]): Promise<void> {
  let published = 0;
  while (published < messages.length) {
    await transport.untilReady(true);
    const outcomes = await transport.publish(messages.slice(published, published + 10));
    const unconfirmed = outcomes.findIndex(({ kind }) => kind !== 'confirmed');
    published += unconfirmed === -1 ? outcomes.length : unconfirmed;
    // What is refused at once is asked for again at once, and the event loop must get its turn.
    if (unconfirmed === 0) await delay(20);
  }
}
