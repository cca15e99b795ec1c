import { inspect } from 'node:util';

import { createWhizbang, migrate } from '@whizbang/core';
import { expect, test } from 'vitest';

import { waitFor } from '../fixtures/index.js';
import { KeptLog, migratedDatabase, testService } from './test-service.js';

/** As somebody writes them into a URL, well or badly; the letters between the signs must not be seen either. */
const passwords = ['hunter2', 'hun%40ter2', 'hun@ter2', 'hun ter2', 'hun/ter2', 'hun%zzter2', 'hun?ter2', 'hun#ter2'];
const nowhere = 'postgres://127.0.0.1:1/x';

/** Whatever the application might print of it. */
function printed(error: unknown): string {
  return `${String(error)} ${inspect(error, { depth: 10, showHidden: true })} ${JSON.stringify(error)}`;
}

function expectNoSecret(text: string, password: string): void {
  const decoded = password.replace('%40', '@');
  const written = [password, decoded, encodeURIComponent(decoded), Buffer.from(decoded).toString('base64')];
  for (const secret of [...written, 'hunter2', 'ter2']) expect(text).not.toContain(secret);
}

test.each(passwords)('the password %s of a URL is in no error, whatever is wrong with the URL', async (password) => {
  const urls: Partial<Record<'database' | 'listenDatabase' | 'broker', string>>[] = [
    { database: `postgres://app:${password}@127.0.0.1:1/x` },
    { database: `postgres://app:${password}@127.0.0.1:99999/x` },
    { database: `postgres://app:${password}@[::/x` },
    { database: `mysql://app:${password}@127.0.0.1/x` },
    { listenDatabase: `postgres://app:${password}@[::/x` },
    { broker: `amqp://app:${password}@[::` },
    { broker: `amqps://app:${password}@127.0.0.1:1?heartbeatSeconds=x` },
    { broker: `kafka://app:${password}@[::` },
    { broker: `kafka://app:${password}@127.0.0.1:1,x:y` },
    { broker: `Endpoint=sb//127.0.0.1;SharedAccessKeyName=app;SharedAccessKey=${password}` },
    { broker: `Endpoint=sb://[::;SharedAccessKeyName=app;SharedAccessKey=${password}` },
    { broker: `nats://app:${password}@127.0.0.1` },
  ];
  for (const url of urls) {
    const log = new KeptLog();
    const options = { service: 'shipping', database: nowhere, broker: 'memory:', logger: log, ...url };
    const said: string[] = [];
    try {
      const whizbang = await createWhizbang(options);
      said.push(printed(whizbang));
      await whizbang.start().catch((error: unknown) => said.push(printed(error)));
      await whizbang.stop();
    } catch (error) {
      said.push(printed(error));
    }
    if (url.database !== undefined) {
      await migrate({ database: url.database }).catch((error: unknown) => said.push(printed(error)));
    }
    expect(said.length, 'something is said').toBeGreaterThan(0);
    expectNoSecret([...said, ...log.lines].join('\n'), password);
  }
});

test.each(['amqp', 'kafka', 'sb'])(
  'the password of a broker that nobody is at is not in the log, by %s',
  async (scheme) => {
    const { url } = await migratedDatabase();
    const password = 'hun@ter2/%';
    const encoded = encodeURIComponent(password);
    const broker = {
      amqp: `amqp://app:${encoded}@127.0.0.1:1`,
      kafka: `kafka://app:${encoded}@127.0.0.1:1`,
      sb: `Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=app;SharedAccessKey=${password};UseDevelopmentEmulator=true`,
    }[scheme];
    const log = new KeptLog();
    const whizbang = await testService({ database: url, logger: log, ...(broker === undefined ? {} : { broker }) });
    await whizbang.start();
    await waitFor(() => log.lines.length > 0, { message: 'the log to say something', timeoutMs: 30_000 });
    expect(whizbang.brokerReady).toBe(false);
    expectNoSecret(`${log.lines.join('\n')} ${JSON.stringify(await whizbang.status())}`, password);
    expect(whizbang.brokerReady).toBe(false);
  },
);
