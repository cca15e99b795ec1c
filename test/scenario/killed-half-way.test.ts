import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/wait-for.js';
import { brokers } from './brokers/index.js';
import { StreamTraffic } from './stream-traffic.js';

const messages = Number(process.env['WHIZBANG_SCENARIO_MESSAGES'] ?? 2000);
// Nine processes share whatever the machine has.
const timeoutMs = 180_000 + messages * 12;

test.each(brokers)(
  '$name: a publisher and a consumer are killed half-way: nothing is lost, no stream is out of order, each is handled once',
  async (broker) => {
    const traffic = await StreamTraffic.start(broker, { messages, leaseSeconds: 3 });
    const handledSoFar = async () => (await traffic.ledger.count()) >= messages * 0.4;
    await waitFor(handledSoFar, { message: 'half of the messages', timeoutMs, intervalMs: 50 });
    traffic.publishers[0]?.kill('SIGKILL');
    traffic.consumers[0]?.kill('SIGKILL');
    expect(await traffic.ledger.count(), 'half-way is too late').toBeLessThan(messages);

    expect((await traffic.produced()).committed).toBe(messages);
    await traffic.settled(timeoutMs);
    expect(await traffic.handled()).toEqual({ handled: messages, twice: 0, outOfOrder: 0, rolledBack: 0 });
    const { duplicates, ...atBroker } = await traffic.brokerReport();
    expect(atBroker).toEqual({ messages, outOfOrder: 0, rolledBack: 0 });
    // Those that the killed publisher had sent and not settled: a few batches at the most.
    expect(duplicates).toBeLessThan(messages / 2);
  },
  timeoutMs + 60_000,
);
