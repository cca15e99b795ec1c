import { ConfigurationError } from '@whizbang/core/transport';
import { describe, expect, test } from 'vitest';
import { createTransport } from './index.js';
import { resolveSettings } from './options.js';

function refusal(connectionString: string, options?: Readonly<Record<string, unknown>>): string {
  try {
    createTransport(connectionString, options);
  } catch (error) {
    if (error instanceof ConfigurationError) return error.message;
    throw error;
  }
  throw new Error('was not refused');
}

test('the defaults', () => {
  expect(resolveSettings('amqp://localhost')).toEqual({
    protocol: 'amqp',
    hostname: 'localhost',
    port: 5672,
    username: 'guest',
    password: 'guest',
    vhost: '/',
    queueType: undefined,
    declare: true,
    mandatory: true,
    heartbeatSeconds: 10,
    confirmTimeoutMs: 30_000,
    connectTimeoutMs: 10_000,
    maxMessageBytes: undefined,
    reconnectDelayMs: 200,
    reconnectMaxDelayMs: 30_000,
    publishWindow: 1000,
    tls: {},
  });
});

test('an address in full, with everything escaped that can be', () => {
  expect(resolveSettings('amqps://us%40er:p%40ss%3A%2F%23@[::1]:5555/my%2Fhost')).toMatchObject({
    protocol: 'amqps',
    hostname: '::1',
    port: 5555,
    username: 'us@er',
    password: 'p@ss:/#',
    vhost: 'my/host',
  });
  expect(resolveSettings('amqps://h')).toMatchObject({ port: 5671 });
});

test('options in the query, and those in code before them', () => {
  const url = 'amqp://h/?queueType=classic&declare=false&heartbeatSeconds=5&maxMessageBytes=1000';
  expect(resolveSettings(url, { heartbeatSeconds: 7, declare: undefined })).toMatchObject({
    queueType: 'classic',
    declare: false,
    heartbeatSeconds: 7,
    maxMessageBytes: 1000,
  });
});

describe('refused', () => {
  test('all violations at once, each with its path', () => {
    const text = refusal('amqp://h/?queueType=both&heartbeat=5', {
      declare: 'yes',
      publishWindow: 0,
      confirmTimeoutMs: 1.5,
      tls: { rejectUnauthorised: false },
      nonsense: 1,
    });
    for (const part of [
      'connection string: queueType: must be "quorum" or "classic"',
      'connection string: heartbeat: there is no such option; there are queueType,',
      'declare: must be true or false',
      'publishWindow: must be a whole number from 1 to 100000',
      'confirmTimeoutMs: must be a whole number from 1 to 3600000',
      'tls: has no option rejectUnauthorised',
      'nonsense: there is no such option',
    ]) {
      expect(text).toContain(part);
    }
  });

  test.each([
    ['no URL', 'localhost', 'is not a URL such as'],
    ['another protocol', 'http://app:hunter2@h', 'must begin with amqp://'],
    ['no host', 'amqp:///vhost', 'has no host'],
    ['a bad port', 'amqp://app:hunter2@h:99999/', 'is not a URL'],
    ['a slash in the password', 'amqp://app:hunter2/hunter2@h/', 'must be percent-encoded'],
    ['a hash in the password', 'amqp://app#hunter2@h/', '%23'],
    ['a percent in the password', 'amqp://app:hunter2%zz@h/', '%25'],
    ['tls in the query', 'amqps://app:hunter2@h/?tls=1', 'must be an object, given in code'],
  ])('%s', (_, url, expected) => {
    const text = refusal(url);
    expect(text).toContain(expected);
    expect(text).not.toContain('hunter2');
  });

  test('names of Object.prototype are no options', () => {
    expect(refusal('amqp://h/?constructor=1')).toContain('constructor: there is no such option');
  });

  test('a first pause above the longest', () => {
    expect(refusal('amqp://h', { reconnectDelayMs: 10, reconnectMaxDelayMs: 5 })).toContain('reconnectDelayMs');
  });
});
