import { expect, test } from 'vitest';
import type { Transport } from '../contract/transport.js';
import { checkContract, createTransportFor, registerTransport } from './transport-registry.js';

const transport = { name: 'test', contractVersion: 1 } as Transport;

test('memory: is there without a package', async () => {
  const made = await createTransportFor('memory:registry-test', undefined);
  expect(made.contractVersion).toBe(1);
  await made.close();
});

test('a scheme that somebody registered is found, in any case, with its options', async () => {
  const calls: unknown[] = [];
  registerTransport('nats', (connectionString, options) => {
    calls.push([connectionString, options]);
    return transport;
  });
  expect(await createTransportFor('NATS://host', { a: 1 })).toBe(transport);
  expect(calls).toEqual([['NATS://host', { a: 1 }]]);
  expect(() => registerTransport('nats', () => transport)).toThrow(/scheme 'nats' has a transport already/);
});

test.each(['amqp', 'kafka', 'sb'])('the scheme %s is taken', (scheme) => {
  expect(() => registerTransport(scheme, () => transport)).toThrow(/has a transport already/);
});

test.each(['', 'A', 'a:', '1a', 'a b'])('%j is no scheme', (scheme) => {
  expect(() => registerTransport(scheme, () => transport)).toThrow(/is no scheme/);
});

test.each(['mqtt://app:s3cret@host', 'localhost', ''])(
  'a broker of %j is refused with the schemes that are known',
  async (broker) => {
    const creating = createTransportFor(broker, undefined);
    await expect(creating).rejects.toMatchObject({
      code: 'WHIZBANG_TRANSPORT_MISSING',
      message: expect.stringMatching(/^(?!.*s3cret).*must begin with one of memory:, amqp:.*Endpoint=sb:/) as string,
    });
  },
);

test('an adapter for another version of the contract is refused', () => {
  const other = { ...transport, contractVersion: 2 } as unknown as Transport;
  expect(() => checkContract(other)).toThrow(/'test' speaks version 2/);
});
