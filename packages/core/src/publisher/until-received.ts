import type { Logger } from '../contract/logger.js';
import type { Transport } from '../contract/transport.js';
import { monotonicMs } from '../runtime/clock.js';
import type { Sleeper } from '../wakeups/sleeper.js';

// How long a broker that is ready may take to make the first subscription. Joining a group of consumers takes some seconds.
const patienceMs = 10_000;

/**
 * Waits until the broker knows what this service receives. What a service publishes to itself before its queue is there finds
 * nobody: it would be charged a try, or dropped. But a subscription that cannot be made must not keep the rest from going
 * out for ever.
 */
export async function untilReceived(
  received: Promise<void>,
  {
    transport,
    sleeper,
    logger,
    signal,
  }: { transport: Transport; sleeper: Sleeper; logger: Logger; signal: AbortSignal },
): Promise<void> {
  let receiving = false;
  void received.then(() => {
    receiving = true;
    sleeper.ring();
  });
  let readyAtMs: number | undefined;
  while (!receiving && !signal.aborted) {
    // A broker that is away takes as long as it takes.
    readyAtMs = transport.ready() ? (readyAtMs ?? monotonicMs()) : undefined;
    const leftMs = readyAtMs === undefined ? patienceMs : readyAtMs + patienceMs - monotonicMs();
    if (leftMs <= 0) {
      logger.warn(
        {},
        'Publishing begins although this service does not receive yet; what it publishes to itself may have to be tried again',
      );
      return;
    }
    // Readiness and stop ring, too; the bound covers a transport that forgets to tell.
    await sleeper.waitForRing(Math.min(leftMs, 1_000));
  }
}
