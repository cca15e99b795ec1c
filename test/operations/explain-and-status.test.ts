import { randomUUID } from 'node:crypto';

import { defineMessage } from '@whizbang/core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/wait-for.js';
import { type OperatorsDatabase, insertRows, minutesAgo, operatorsDatabase, service } from './service.js';

const stream = '11111111-1111-4111-8111-111111111111';
const holder = '22222222-2222-4222-8222-222222222222';
const later = () => new Date(Date.now() + 3_600_000);

let database: OperatorsDatabase;
beforeAll(async () => {
  database = await operatorsDatabase();
});
afterAll(() => database.close());
beforeEach(() => database.empty());

describe.each(['wh_outbox', 'wh_inbox'] as const)('explain a message of %s', (table) => {
  const where = table === 'wh_outbox' ? 'outbox' : 'inbox';
  const explain = async (id: string | undefined) => (await service(database.url)).explain(id ?? '');

  test('that is due', async () => {
    const [id] = await insertRows(database, table, [{}]);
    expect(await explain(id)).toEqual({
      where,
      sentence: 'It is due and waits to be claimed.',
      attempts: 0,
      lastError: null,
    });
  });

  test('that is leased', async () => {
    const [id] = await insertRows(database, table, [{ instance_id: holder, lease_expiry: later(), attempts: 1 }]);
    expect((await explain(id)).sentence).toMatch(new RegExp(`^It is leased by instance ${holder} until \\d{4}-.*\\.$`));
  });

  test('whose lease ran out, which is due again', async () => {
    const [id] = await insertRows(database, table, [{ instance_id: holder, lease_expiry: minutesAgo(1), attempts: 1 }]);
    expect((await explain(id)).sentence).toBe('It is due and waits to be claimed.');
  });

  test('that waits for its retry', async () => {
    const [id] = await insertRows(database, table, [
      { attempts: 2, status: 32769, scheduled_for: later(), failure_reason: 8, error: 'slower, please' },
    ]);
    expect(await explain(id)).toMatchObject({
      where,
      sentence: expect.stringMatching(
        /^It waits for its retry at \d{4}-.* after failing because of Throttled\.$/,
      ) as string,
      attempts: 2,
      lastError: 'slower, please',
    });
  });

  test('that waits behind another of its stream', async () => {
    const [head, , last] = await insertRows(database, table, [
      { stream_id: stream, attempts: 1, status: 32769, scheduled_for: later() },
      { stream_id: stream },
      { stream_id: stream, blocked: true },
    ]);
    expect((await explain(last)).sentence).toBe(`It waits behind message ${head} of its stream.`);
  });

  test('that parked and passable messages of its stream do not hold up', async () => {
    const [, , id] = await insertRows(database, table, [
      { stream_id: stream, scheduled_for: 'infinity' },
      { stream_id: stream, scheduled_for: later(), passable: true, attempts: 1 },
      { stream_id: stream },
    ]);
    expect((await explain(id)).sentence).toBe('It is due and waits to be claimed.');
  });

  test('that is scheduled', async () => {
    const [id] = await insertRows(database, table, [{ scheduled_for: later() }]);
    expect((await explain(id)).sentence).toMatch(/^It is scheduled for \d{4}-/);
  });

  test('that is parked', async () => {
    const [id] = await insertRows(database, table, [{ scheduled_for: 'infinity', attempts: 3 }]);
    expect((await explain(id)).sentence).toBe(
      'It is parked (scheduled_for = infinity); set scheduled_for to now() to try it.',
    );
  });

  test('that is dead-lettered', async () => {
    const id = randomUUID();
    await insertRows(database, 'wh_dead_letters', [
      { source_table: table, source_id: id, failure_reason: 4, error_text: 'no such order', attempts_when_dlq: 3 },
    ]);
    expect(await explain(id)).toEqual({
      where: 'dead letters',
      sentence: expect.stringMatching(
        /^It was dead-lettered at \d{4}-.* because of ValidationError after 3 tries\.$/,
      ) as string,
      attempts: 3,
      lastError: 'no such order',
    });
  });

  test('that was brought back and completed', async () => {
    const id = randomUUID();
    await insertRows(database, 'wh_dead_letters', [
      { source_table: table, source_id: id, recovery_status: 3, recovered_at: minutesAgo(1) },
    ]);
    expect(await explain(id)).toMatchObject({
      where: 'completed',
      sentence: 'It was brought back from the dead letters and has been completed.',
    });
  });

  test('that is completed and kept', async () => {
    const [id] = await insertRows(database, table, [{ processed_at: minutesAgo(1), attempts: 1 }]);
    expect(await explain(id)).toMatchObject({
      where: 'completed',
      sentence: 'It has been completed and is kept (retainCompleted).',
    });
  });
});

describe('explain', () => {
  test('a message that was handled and deleted', async () => {
    const id = randomUUID();
    await database.query('insert into whizbang.wh_message_deduplication (message_id) values ($1)', [id]);
    const whizbang = await service(database.url);
    expect((await whizbang.explain(id)).sentence).toMatch(/^It was received at \d{4}-.* and has been handled\.$/);
  });

  test('a message that was published, kept, and waits in the inbox of the same service', async () => {
    const [id] = await insertRows(database, 'wh_outbox', [{ processed_at: minutesAgo(1) }]);
    await insertRows(database, 'wh_inbox', [{ message_id: id }]);
    const whizbang = await service(database.url);
    expect(await whizbang.explain(id ?? '')).toMatchObject({ where: 'inbox' });
  });

  test.each([randomUUID(), 'order 7', `'; drop table wh_outbox; --`])('a message that nobody knows: %s', async (id) => {
    const whizbang = await service(database.url);
    expect(await whizbang.explain(id)).toMatchObject({ where: 'unknown', attempts: null, lastError: null });
  });

  test('a message whose type has an open breaker, from its failures', async () => {
    const failing = defineMessage('desk.fails', { schema: z.object({}), destination: 'desk' });
    const whizbang = await service(database.url, {
      failures: { breaker: { failureThreshold: 2, initialCooldownMs: 60_000 } },
    });
    whizbang.handle(failing, () => Promise.reject(new Error('the warehouse is down')));
    await whizbang.start();
    for (let count = 0; count < 3; count += 1) await whizbang.publishNow(failing, {});
    await waitFor(async () => (await whizbang.status()).breakers.inbox.length === 1, {
      message: 'the breaker to open',
    });
    const { messageId } = await whizbang.publishNow(failing, {});
    await waitFor(async () => (await whizbang.explain(messageId)).where === 'inbox', {
      message: 'the message to arrive',
    });
    expect((await whizbang.explain(messageId)).sentence).toMatch(
      /^The breaker of message type 'desk.fails' is open because of Unknown; the next trial is in \d+ ms\.$/,
    );
    expect((await whizbang.status()).breakers.inbox).toEqual([
      { key: 'desk.fails', reason: 'Unknown', retryInMs: expect.any(Number) as number },
    ]);
  });
});

describe('status', () => {
  test.each(['wh_outbox', 'wh_inbox'] as const)('counts what waits in %s', async (table) => {
    const since = table === 'wh_outbox' ? 'created_at' : 'received_at';
    const other = '33333333-3333-4333-8333-333333333333';
    await insertRows(database, table, [
      { [since]: minutesAgo(5) },
      { instance_id: holder, lease_expiry: later(), attempts: 1 },
      // A retry whose time has come is pending, and the oldest; one in hand is leased.
      { [since]: minutesAgo(10), attempts: 2, status: 32769, scheduled_for: minutesAgo(1) },
      { attempts: 2, status: 32769, scheduled_for: minutesAgo(1), instance_id: holder, lease_expiry: later() },
      { scheduled_for: later() },
      { scheduled_for: 'infinity' },
      { scheduled_for: 'infinity' },
      { stream_id: stream, scheduled_for: later(), attempts: 1, status: 32769 },
      { stream_id: stream, blocked: true },
      { stream_id: stream, blocked: true },
      // Parked by hand while it waited behind the others: nothing will take it up when they have gone.
      { stream_id: stream, blocked: true, scheduled_for: 'infinity' },
      { stream_id: other, scheduled_for: later(), attempts: 1, status: 32769 },
      { stream_id: other, blocked: true },
      { processed_at: minutesAgo(1) },
    ]);
    const status = await (await service(database.url)).status();
    const [mine, theirs] = table === 'wh_outbox' ? [status.outbox, status.inbox] : [status.inbox, status.outbox];
    expect(mine).toEqual({
      pending: 4,
      leased: 2,
      scheduled: 3,
      parked: 3,
      blockedStreams: 2,
      oldestAgeMs: expect.any(Number) as number,
    });
    expect(mine.oldestAgeMs).toBeGreaterThanOrEqual(10 * 60_000);
    expect(theirs).toEqual({ pending: 0, leased: 0, scheduled: 0, parked: 0, blockedStreams: 0, oldestAgeMs: 0 });
  });

  test('counts the dead by reason, and the instances that beat', async () => {
    await insertRows(database, 'wh_dead_letters', [
      { failure_reason: 5 },
      { failure_reason: 5, recovery_status: 2 },
      { failure_reason: 3 },
      { failure_reason: 8, recovered_at: minutesAgo(1), recovery_status: 3 },
    ]);
    await database.query(
      `insert into whizbang.wh_service_instances (instance_id, service_name, host_name, process_id, last_heartbeat_at)
       values (gen_random_uuid(), 'desk', 'here', 1, now()), (gen_random_uuid(), 'desk', 'here', 2, now() - interval '1 hour')`,
    );
    expect(await (await service(database.url)).status()).toMatchObject({
      deadByReason: { MaxAttemptsExceeded: 2, SerializationError: 1 },
      instancesAlive: 1,
      wakeupsHealthy: false,
      brokerReady: false,
      duties: { maintenance: false, recovery: false },
      elected: false,
    });
  });

  test('of a running service tells of its wake-ups, its broker and its election', async () => {
    const whizbang = await service(database.url);
    await whizbang.start();
    const status = await waitFor(
      async () => {
        const now = await whizbang.status();
        return now.wakeupsHealthy && now.brokerReady && now.elected ? now : undefined;
      },
      { message: 'the service to be up' },
    );
    expect(status.instancesAlive).toBe(1);
  });
});
