import { isWhizbangError } from '@whizbang/core/transport';
import { expect, test } from 'vitest';
import { resolveSettings } from './options.js';

test('several brokers, a login and options in the query', () => {
  const settings = resolveSettings(
    'kafkas://us%40er:p%2Fw@one:9093,two/?partitions=12&saslMechanism=scram-sha-512&declare=false',
  );
  expect(settings).toMatchObject({
    brokers: ['one:9093', 'two:9092'],
    secure: true,
    username: 'us@er',
    password: 'p/w',
    partitions: 12,
    saslMechanism: 'scram-sha-512',
    declare: false,
  });
});

test('defaults, and what is given in code wins', () => {
  const settings = resolveSettings('kafka://localhost?clientId=a', { clientId: 'b', partitions: -1 });
  expect(settings).toMatchObject({
    brokers: ['localhost:9092'],
    secure: false,
    username: undefined,
    clientId: 'b',
    partitions: -1,
    replicationFactor: -1,
    maxBatchBytes: 1_048_588,
    maxMessageBytes: 1_032_204,
    startFrom: 'latest',
  });
});

test('everything wrong is told at once, and no secret', () => {
  const wrong = 'kafka://user:pa%ss-word@host:99999,[::1]:9092?partitions=0&startFrom=middle&colour=red';
  try {
    resolveSettings(wrong, { reconnectDelayMs: 500, reconnectMaxDelayMs: 100, tls: 'yes', maxMessageBytes: 2_000_000 });
    expect.unreachable();
  } catch (error) {
    expect(isWhizbangError(error)).toBe(true);
    const { message } = error as Error;
    for (const part of [
      /host 1 is not host or host:port/,
      /host 2 is not host or host:port \(IPv6/,
      /begins no escape; write it %25/,
      /partitions: must be a whole number from 1 to 10000, or -1/,
      /startFrom: must be "latest" or "earliest"/,
      /colour: there is no such option/,
      /reconnectDelayMs: must not be above/,
      /tls: must be an object/,
      /maxMessageBytes: must not be above maxBatchBytes/,
    ]) {
      expect(message).toMatch(part);
    }
    expect(message).not.toMatch(/pa%ss|ss-word/);
  }
});

test.each(['http://host', 'kafka:host', 'kafka://', 'kafka://user:a@b@host', 'kafka://user:a#b@host'])(
  '%s is refused',
  (text) => {
    expect(() => resolveSettings(text)).toThrow(/options of the Kafka transport: connection string: /);
  },
);
