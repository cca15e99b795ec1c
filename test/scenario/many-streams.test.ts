import { expect, test } from 'vitest';

import { brokers } from './brokers/index.js';
import { StreamTraffic } from './stream-traffic.js';

const messages = Number(process.env['WHIZBANG_SCENARIO_MESSAGES'] ?? 2000);
// Nine processes share whatever the machine has.
const timeoutMs = 180_000 + messages * 12;

test.each(brokers)(
  `$name: ${messages} messages over 1,000 streams: each once, in order, and nothing that was rolled back`,
  async (broker) => {
    const traffic = await StreamTraffic.start(broker, { messages });
    const { committed, rolledBack } = await traffic.produced();
    expect(committed).toBe(messages);
    expect(rolledBack).toBeGreaterThan(0);

    await traffic.settled(timeoutMs);
    expect(await traffic.handled()).toEqual({ handled: messages, twice: 0, outOfOrder: 0, rolledBack: 0 });
    expect(await traffic.brokerReport()).toEqual({ messages, duplicates: 0, outOfOrder: 0, rolledBack: 0 });
  },
  timeoutMs + 60_000,
);
