// A second process of the shipping service. It says what it does as one JSON object on a line, and is killed half-way.
import { demoLogger } from './demo-logger.js';
import { createShipping } from './shipping-service.js';

const shipping = await createShipping({
  database: process.env['DATABASE_URL'] ?? '',
  broker: process.env['BROKER_URL'] ?? '',
  worker: 'second',
  publishes: false,
  logger: demoLogger('shipping, second process', (line) => process.stderr.write(`${line}\n`)),
});
const say = (message: object) => process.stdout.write(`${JSON.stringify(message)}\n`);

await shipping.start();
say({ instanceId: shipping.instanceId });
const reporting = setInterval(() => say({ counters: shipping.counters }), 200);

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    clearInterval(reporting);
    void shipping.stop();
  });
}
