import { expect, test } from 'vitest';

test('loading the Kafka transport says that it is not there yet, and which ones are', async () => {
  await expect(import('./index.js')).rejects.toThrow(/not in this version.*RabbitMQ.*memory:/);
});
