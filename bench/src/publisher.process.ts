// Publishes what is in the outbox, until SIGTERM. LISTEN=false: by polling alone.
import { createWhizbang } from '@whizbang/core';

const { DATABASE_URL = '', BROKER_URL = '', LISTEN = 'true' } = process.env;
const whizbang = await createWhizbang({
  service: 'orders',
  database: DATABASE_URL,
  broker: BROKER_URL,
  wakeups: { listen: LISTEN === 'true' },
});
process.once('SIGTERM', () => void whizbang.stop());
await whizbang.start();
process.stdout.write(`${JSON.stringify({ started: true })}\n`);
