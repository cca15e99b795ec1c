import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import {
  MessageFailureReason,
  MessageProcessingStatus,
  defaultPolicyByReason,
  failureReasonName,
} from '@whizbang/core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { type OperatorsDatabase, insertRows, minutesAgo, operatorsDatabase } from './service.js';
import { type SqlBlock, blocksOfSeeds, fill } from './sql-blocks.js';

const folder = process.env['WHIZBANG_SEEDS'] ?? fileURLToPath(new URL('../../../shared/seeds', import.meta.url));

// A skip would count as a failure; this says the same and passes.
test.each(existsSync(folder) ? [] : [folder])('the SQL of the seeds: not run, %s is not here', (missing) => {
  expect(existsSync(missing)).toBe(false);
});

describe.each(existsSync(folder) ? [folder] : [])('the SQL of the seeds in %s', (seeds) => {
  const blocks = blocksOfSeeds(seeds);
  const stuckStream = '11111111-1111-4111-8111-111111111111';
  const first = new Date('2026-03-12T09:15:00.000Z');
  const last = new Date('2026-03-13T09:15:00.000Z');
  let database: OperatorsDatabase;
  let values: Record<string, string> = {};

  beforeAll(async () => {
    database = await operatorsDatabase();
    const later = minutesAgo(-5);
    const failed = { status: 32769, scheduled_for: later, failure_reason: 2 };
    const [poison = '', , , blocking = '', inspected = ''] = await insertRows(database, 'wh_outbox', [
      { ...failed, message_type: 'poison', attempts: 10, error: 'always', failure_reason: 3, event_data: '{"a":1}' },
      { ...failed, message_type: 'retried', attempts: 1 },
      { ...failed, message_type: 'retried', attempts: 1 },
      { ...failed, message_type: 'blocking', attempts: 4, stream_id: stuckStream, created_at: minutesAgo(10) },
      { message_type: 'stuck', attempts: 992, created_at: first, event_data: '{"b":2}' },
      { message_type: 'stuck', attempts: 12, created_at: last },
      { message_type: 'behind', stream_id: stuckStream, blocked: true },
      { message_type: 'healthy' },
    ]);
    values = {
      stuck_message_id: poison,
      blocked_stream_id: stuckStream,
      blocking_message_id: blocking,
      inspected,
    };
  });
  afterAll(() => database.close());

  /** Verbatim, but for what stands for a value: `<…>`, a shortened id, the variables of the function it is an excerpt of. */
  async function run(block: SqlBlock): Promise<readonly Record<string, unknown>[]> {
    const text = fill(block.text, values)
      .replaceAll('019e92b2-1bbb-708d-...', values['inspected'] ?? '')
      .replaceAll('v_failure.status_flags', '1')
      .replaceAll('v_failure.error_message', `'it broke'`)
      .replaceAll('v_failure.failure_reason', '2')
      .replaceAll('v_failure.msg_id', `'${values['blocking_message_id'] ?? ''}'::uuid`)
      .replaceAll('p_now', 'now()');
    const client = await database.pool.connect();
    try {
      await client.query('begin');
      await client.query('set local search_path to whizbang');
      const { rows } = await client.query<Record<string, unknown>>(text);
      return rows;
    } finally {
      await client.query('rollback');
      client.release();
    }
  }

  const only = (part: string): SqlBlock => {
    const found = blocks.filter((block) => block.text.replaceAll(/\s+/g, ' ').includes(part));
    if (found.length !== 1 || found[0] === undefined) throw new Error(`${found.length} blocks have '${part}'`);
    return found[0];
  };

  const text = readdirSync(seeds)
    .map((name) => readFileSync(join(seeds, name), 'utf8'))
    .join('\n');

  test.each([
    ['MessageFailureReason', MessageFailureReason],
    ['MessageProcessingStatus', MessageProcessingStatus],
  ])('%s has the numbers of the code', (name, values) => {
    const body = new RegExp(`public enum ${name} \\{([^}]*)\\}`).exec(text)?.[1] ?? '';
    const numbers = [...body.matchAll(/(\w+) = (\d+)(?: << (\d+))?/g)].map(([, key = '', base, shift]) => [
      key,
      Number(base) << Number(shift ?? 0),
    ]);
    expect(numbers.length).toBeGreaterThan(4);
    expect(values).toEqual(Object.fromEntries(numbers));
  });

  test('the default policy has the matrix of the code', () => {
    const cooldowns: Record<string, number> = { immediate: 0, '—': 0, '30 min': 30, '1 h': 60, '6 h': 360 };
    const lines = [
      ...text.matchAll(/^(\w+) (\w+) (\d) (immediate|—|30 min|1 h|6 h) (PermanentlyFailed|HoldForReview)$/gm),
    ];
    expect(lines).toHaveLength(9);
    const matrix = lines.map(([, reason, name, most, cooldown, end]) => [
      reason,
      {
        name,
        maxRecoveryAttempts: Number(most),
        cooldownMs: (cooldowns[cooldown ?? ''] ?? Number.NaN) * 60_000,
        holdForReviewAfterExhaustion: end === 'HoldForReview',
      },
    ]);
    const ours = [...defaultPolicyByReason].map(([reason, policy]) => [failureReasonName(reason), policy]);
    expect(Object.fromEntries(ours)).toEqual(Object.fromEntries(matrix));
  });

  test('is all found', () => {
    expect(blocks.map((block) => block.file.slice(0, 3))).toEqual([
      ...Array<string>(11).fill('000'),
      ...Array<string>(5).fill('004'),
    ]);
  });

  test.each(blocks.map((block) => [`${block.file} line ${block.line}`, block] as const))(
    '%s runs',
    async (_, block) => {
      await expect(run(block)).resolves.toBeDefined();
    },
  );

  test('finds the poison messages', async () => {
    expect(await run(only('FROM wh_outbox WHERE attempts >= 10 -- High'))).toEqual([
      expect.objectContaining({
        message_id: values['stuck_message_id'],
        message_type: 'poison',
        attempts: 10,
        error: 'always',
      }),
    ]);
    expect(await run(only('poison_candidates'))).toEqual([{ poison_candidates: '1' }]);
  });

  test('tells how the retries are spread, by attempts and by reason', async () => {
    expect(await run(only('COUNT(*) as message_count'))).toEqual([
      { attempts: 1, message_count: '2' },
      { attempts: 4, message_count: '1' },
      { attempts: 10, message_count: '1' },
    ]);
    expect(await run(only('COUNT(*) as count'))).toEqual([
      { failure_reason: 2, count: '3' },
      { failure_reason: 3, count: '1' },
    ]);
  });

  test('tells the backlog of retries', async () => {
    const [row] = await run(only('scheduled_count'));
    expect(row).toMatchObject({
      scheduled_count: '4',
      next_retry: expect.any(Date) as Date,
      latest_retry: expect.any(Date) as Date,
    });
  });

  test('counts what is stuck, by type, and since when', async () => {
    expect(await run(only('stuck_count'))).toEqual([{ message_type: 'stuck', stuck_count: '2', max_attempts: 992 }]);
    expect(await run(only('oldest_stuck'))).toEqual([
      { message_type: 'stuck', oldest_stuck: first, newest_stuck: last, avg_attempts: 502 },
    ]);
  });

  test('inspects a message', async () => {
    expect(await run(only('SELECT message_type, stream_id, attempts, status'))).toEqual([
      expect.objectContaining({
        message_type: 'stuck',
        attempts: 992,
        error: null,
        lease_expiry: null,
        created_at: first,
      }),
    ]);
    expect(await run(only('SELECT message_id, attempts, error, scheduled_for'))).toEqual([
      expect.objectContaining({ attempts: 10, error: 'always' }),
    ]);
    expect(await run(only('SELECT failure_reason FROM'))).toEqual([{ failure_reason: 3 }]);
    expect(await run(only('SELECT event_data FROM'))).toEqual([{ event_data: { a: 1 } }]);
  });

  test('finds what blocks a stream', async () => {
    expect(await run(only('ORDER BY created_at ASC LIMIT 1'))).toEqual([
      expect.objectContaining({ message_id: values['blocking_message_id'], attempts: 4 }),
    ]);
    expect(await run(only('SELECT attempts FROM'))).toEqual([{ attempts: 4 }]);
  });

  test("records a failure with the seed's own statement: five minutes at four attempts", async () => {
    const update = only('UPDATE wh_outbox o');
    const [row] = await run({
      ...update,
      text: `${update.text.replace(
        /;\s*$/m,
        ` RETURNING status, error, failure_reason, instance_id, lease_expiry,
        extract(epoch from scheduled_for - now())::integer as seconds;`,
      )}`,
    });
    expect(row).toEqual({
      status: 32769,
      error: 'it broke',
      failure_reason: 2,
      instance_id: null,
      lease_expiry: null,
      // Four attempts: the ceiling.
      seconds: 300,
    });
  });
});
