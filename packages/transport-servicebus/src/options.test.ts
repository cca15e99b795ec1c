import { ConfigurationError } from '@whizbang/core/transport';
import { describe, expect, test } from 'vitest';
import { createTransport } from './index.js';
import { resolveSettings } from './options.js';

const key = 'c2VjcmV0LWtleQ==';
const string = `Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=${key}`;
const credential = { getToken: async () => null };

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
  expect(resolveSettings(string)).toEqual({
    host: 'contoso.servicebus.windows.net',
    connectionString: `Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=${key}`,
    entityPath: undefined,
    entity: 'topic',
    sessions: true,
    declare: true,
    maxMessageBytes: undefined,
    sendTimeoutMs: 10_000,
    connectTimeoutMs: 10_000,
    maxConcurrentSends: 100,
    maxConcurrentSessions: 32,
    sharedSessions: 16,
    lockRenewalMs: 10_000,
    silenceMs: 30_000,
    duplicateDetection: false,
    reconnectDelayMs: 200,
    reconnectMaxDelayMs: 30_000,
    throttlePauseMs: 10_000,
    administrationEndpoint: undefined,
    credential: undefined,
    webSocket: undefined,
  });
});

test('options in the connection string, whatever their case, and those in code before them', () => {
  const text = `${string};Sessions=False;ENTITY=queue;maxConcurrentSends=5;`;
  expect(resolveSettings(text, { maxConcurrentSends: 7, declare: undefined })).toMatchObject({
    connectionString: string,
    sessions: false,
    entity: 'queue',
    maxConcurrentSends: 7,
    declare: true,
  });
});

test('the SDK is not told of an entity path, since it would refuse all others', () => {
  expect(resolveSettings(`${string};EntityPath=orders`)).toMatchObject({
    connectionString: string,
    entityPath: 'orders',
  });
});

test('keys of any case, a signature instead of a key, and the emulator', () => {
  const text =
    'endpoint=sb://localhost:5672;sharedaccesssignature=SharedAccessSignature sr=x&sig=y%3D;UseDevelopmentEmulator=true';
  expect(resolveSettings(text)).toMatchObject({
    host: 'localhost:5672',
    connectionString:
      'Endpoint=sb://localhost:5672;SharedAccessSignature=SharedAccessSignature sr=x&sig=y%3D;UseDevelopmentEmulator=true',
  });
});

test('a URL with a credential', () => {
  expect(resolveSettings('sb://contoso.servicebus.windows.net?entity=queue', { credential })).toMatchObject({
    host: 'contoso.servicebus.windows.net',
    connectionString: undefined,
    entity: 'queue',
    credential,
  });
});

describe('refused', () => {
  test('all violations at once, each with its path', () => {
    const text = refusal(`Endpoint=https://contoso;SharedAccessKey=${key};Sessions=perhaps;Nonsense=1`, {
      entity: 'exchange',
      sharedSessions: 0,
      sendTimeoutMs: 1.5,
      administrationEndpoint: 'localhost',
      webSocket: 'ws',
      retries: 3,
    });
    for (const part of [
      'connection string: Endpoint must be there, and be like sb://contoso.servicebus.windows.net/',
      'connection string: SharedAccessKeyName is missing',
      'connection string: sessions: must be true or false',
      'connection string: part 4, "Nonsense", is not known',
      'entity: must be "topic" or "queue"',
      'sharedSessions: must be a whole number from 1 to 1000',
      'sendTimeoutMs: must be a whole number from 1 to 3600000',
      'administrationEndpoint: must be like http://localhost:5300',
      'webSocket: must be a WebSocket class, given in code',
      'retries: there is no such option; there are entity, sessions,',
    ]) {
      expect(text).toContain(part);
    }
    expect(text).not.toContain(key);
  });

  test.each([
    ['pauses the wrong way round', string, { reconnectDelayMs: 500, reconnectMaxDelayMs: 100 }, /must not be above/],
    ['a URL without a credential', 'sb://contoso.servicebus.windows.net', {}, /credential: is needed/],
    ['a URL with a key', `sb://root:${key}@contoso.servicebus.windows.net`, { credential }, /carries no keys/],
    ['a URL with a path', 'sb://contoso.servicebus.windows.net/orders', { credential }, /has no path/],
    ['a credential and a key', string, { credential }, /this one has a key/],
    [
      'a credential that is none',
      'sb://contoso',
      { credential: 'token' },
      /credential: must be an object with getToken/,
    ],
    ['two kinds of keys', `${string};SharedAccessSignature=s`, {}, /one of them is enough/],
    ['a key with a semicolon in it', `${string};${key}`, {}, /part 4 is not known/],
  ])('%s', (_, text, options, sentence) => {
    const refused = refusal(text, options);
    expect(refused).toMatch(sentence);
    expect(refused).not.toContain(key);
  });
});
