// A service with everything running: publisher, receiver, dispatcher, maintenance, recovery. Says its CPU time on SIGUSR2.
import { createWhizbang } from '@whizbang/core';

import { OrderPlaced } from './order-placed.js';

const { DATABASE_URL = '', BROKER_URL = '' } = process.env;
const service = await createWhizbang({ service: 'shipping', database: DATABASE_URL, broker: BROKER_URL });
service.handle(OrderPlaced, () => undefined);
process.on('SIGUSR2', () => {
  const { user, system } = process.cpuUsage();
  process.stdout.write(`${JSON.stringify({ cpuSeconds: (user + system) / 1e6, at: performance.now() })}\n`);
});
process.once('SIGTERM', () => void service.stop());
await service.start();
process.stdout.write(`${JSON.stringify({ started: true })}\n`);
