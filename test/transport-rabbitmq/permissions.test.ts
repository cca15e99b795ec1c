import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { messageTo, messagesTo } from '../conformance/messages.js';
import { type RabbitmqServer, startRabbitmq, waitFor } from '../fixtures/index.js';
import { never, outcomeText } from '../fixtures/watched-transport.js';
import { connected, connecting, rawChannel } from './connected.js';

let server: RabbitmqServer;

beforeAll(async () => {
  server = await startRabbitmq({ private: true });
});
afterAll(async () => {
  await server?.stop();
});

async function urlAs(permissions: { configure: string; write: string; read: string }): Promise<string> {
  const user = `user-${randomBytes(4).toString('hex')}`;
  await server.ctl('add_user', user, 'hunter2');
  await server.ctl('set_permissions', user, permissions.configure, permissions.write, permissions.read);
  const url = new URL(server.url);
  url.username = user;
  url.password = 'hunter2';
  return url.href;
}

async function exchanges(...names: string[]): Promise<void> {
  const channel = await rawChannel(server.url);
  for (const name of names) {
    await channel.assertExchange(name, 'topic', { durable: true });
    await channel.assertQueue(name, { durable: true });
    await channel.bindQueue(name, name, '#');
  }
}

test('a destination that may not be written to is refused alone, again and again', async () => {
  await exchanges('open', 'forbidden');
  const url = await urlAs({ configure: '.*', write: '^open$', read: '.*' });
  const { transport, log } = await connected(url);
  for (let round = 0; round < 3; round += 1) {
    const batch = [...messagesTo('open', 50), ...messagesTo('forbidden', 50), ...messagesTo('open', 50)];
    const outcomes = (await transport.publish(batch, never)).map((outcome) => outcomeText(outcome));
    expect(outcomes).toEqual(
      batch.map(({ destination }) =>
        destination === 'open' ? 'confirmed' : 'failed SecurityContextEstablishmentFailure',
      ),
    );
  }
  expect(transport.ready()).toBe(true);
  expect(log.filter((line) => line.includes('"forbidden"')).length).toBe(1);
  expect(log.join()).not.toContain('hunter2');
});

test('what may not be created but is there can be used; what is missing is said', async () => {
  await exchanges('there');
  const url = await urlAs({ configure: '', write: '.*', read: '.*' });
  const { transport } = await connected(url);
  const outcomes = await transport.publish([messageTo('there'), messageTo('not-there')], never);
  expect(outcomes.map((outcome) => outcomeText(outcome))).toEqual([
    'confirmed',
    'failed SecurityContextEstablishmentFailure',
  ]);
  expect(outcomes[1]).toMatchObject({ error: { message: expect.stringContaining('may not create it') as string } });
});

test('a forbidden routing key fails alone', async () => {
  await exchanges('keys');
  const url = await urlAs({ configure: '.*', write: '.*', read: '.*' });
  await server.ctl('set_topic_permissions', new URL(url).username, 'keys', '^allowed', '.*');
  const { transport } = await connected(url);
  const batch = Array.from({ length: 30 }, (_, n) =>
    messageTo('keys', { type: n === 10 || n === 20 ? 'forbidden' : 'allowed' }),
  );
  expect((await transport.publish(batch, never)).map((outcome) => outcomeText(outcome))).toEqual(
    batch.map(({ messageType }) =>
      messageType === 'allowed' ? 'confirmed' : 'failed SecurityContextEstablishmentFailure',
    ),
  );
});

test('a wrong password and a refused vhost are said clearly and seldom, and mended without a restart', async () => {
  const url = await urlAs({ configure: '.*', write: '.*', read: '.*' });
  const user = new URL(url).username;
  const wrong = new URL(url);
  wrong.password = 'swordfish';
  const { transport, log, isReady } = await connecting(wrong.href);
  const refusal = `the broker refused user "${user}": user name or password is wrong`;
  await waitFor(() => log.some((line) => line.includes('(10 times so far)')), {
    message: 'the tenth attempt',
    timeoutMs: 30_000,
  });
  expect(log.map((line) => line.includes(refusal))).toEqual([true, true]);
  expect(log.join()).not.toContain('swordfish');
  expect(transport.ready()).toBe(false);
  expect(await transport.publish([messageTo('any')], never)).toEqual([{ kind: 'notAttempted' }]);
  await server.ctl('change_password', user, 'swordfish');
  await isReady();
  expect(log.at(-1)).toContain('works again');

  const elsewhere = new URL(url);
  elsewhere.pathname = '/no-such-vhost';
  elsewhere.password = 'swordfish';
  const refused = await connecting(elsewhere.href);
  await waitFor(() => refused.log.length > 0, { message: 'the refusal of the vhost' });
  expect(refused.log[0]).toMatch(/"no-such-vhost".*does not exist, or user ".*" has no permission on it, or/);
});
