import { expect, test } from 'vitest';
import { maskSecrets } from './mask-secrets.js';

test.each([
  ['postgres://app:s3cret@db:5432/orders', 'postgres://app:***@db:5432/orders'],
  ['amqps://app:p@s3cret@broker/vhost', 'amqps://app:***@broker/vhost'],
  ['amqp://app:s3/cret@broker', 'amqp://app:***@broker'],
  ['amqp://app:s3?c#ret@broker', 'amqp://app:***@broker'],
  ['redis://:s3cret@cache', 'redis://:***@cache'],
  [
    'Endpoint=sb://x.net/;SharedAccessKeyName=root;SharedAccessKey=s3cret+/=',
    'Endpoint=sb://x.net/;SharedAccessKeyName=root;SharedAccessKey=***',
  ],
  ['host=db password=s3cret user=app', 'host=db password=*** user=app'],
  [`host=db password='s3 cret' user=app`, 'host=db password=*** user=app'],
  ['PASSWORD = "s3 cret"; x', 'PASSWORD = ***; x'],
  [
    'postgres://db/orders?user=app&password=s3cret&sslmode=require',
    'postgres://db/orders?user=app&password=***&sslmode=require',
  ],
  ['cannot reach amqp://a:s3cret@one and amqp://b:s3cret@two', 'cannot reach amqp://a:***@one and amqp://b:***@two'],
])('%s', (text, masked) => {
  expect(maskSecrets(text)).toBe(masked);
  expect(maskSecrets(text)).not.toContain('s3');
});

test.each([
  'no secrets here',
  'postgres://db:5432/orders',
  'http://localhost:15672/ is open; write to me@here',
  'at run (file:///app/dist/index.js:12:7)',
  'the password of the user is wrong',
])('"%s" is left as it is', (text) => {
  expect(maskSecrets(text)).toBe(text);
});
