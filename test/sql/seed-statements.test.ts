import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { WorkTable, migratedDatabase } from './work-table.js';

// The statements of the documents that the system is specified by, word for word; what they write as <placeholders> or
// variables of a function is filled in.
const rowId = '019e92b2-1bbb-708d-8000-000000000001';
const otherId = '019e92b2-1bbb-708d-8000-000000000002';
const statements: readonly (readonly [string, string])[] = [
  [
    'find potential poison messages',
    `-- Find potential poison messages
SELECT message_id, destination, message_type, attempts, error,
       failure_reason, scheduled_for, created_at
FROM wh_outbox
WHERE attempts >= 10  -- High retry count
  AND (status & 32768) = 32768  -- Failed flag set
  AND scheduled_for IS NOT NULL  -- Still scheduled for retry
ORDER BY attempts DESC, created_at ASC;`,
  ],
  [
    'retry count distribution',
    `SELECT attempts, COUNT(*) as message_count
FROM wh_outbox
WHERE (status & 32768) = 32768  -- Failed messages
GROUP BY attempts
ORDER BY attempts;`,
  ],
  [
    'failure reasons',
    `SELECT failure_reason, COUNT(*) as count
FROM wh_outbox
WHERE (status & 32768) = 32768
GROUP BY failure_reason
ORDER BY count DESC;`,
  ],
  [
    'scheduled retry backlog',
    `SELECT COUNT(*) as scheduled_count,
       MIN(scheduled_for) as next_retry,
       MAX(scheduled_for) as latest_retry
FROM wh_outbox
WHERE scheduled_for IS NOT NULL
  AND scheduled_for > NOW();`,
  ],
  [
    'poison message candidates',
    `SELECT COUNT(*) as poison_candidates
FROM wh_outbox
WHERE attempts >= 10
  AND (status & 32768) = 32768;`,
  ],
  [
    'a stuck message',
    `SELECT message_id, attempts, error, scheduled_for
FROM wh_outbox
WHERE message_id = '${rowId}';`,
  ],
  ['its failure reason', `SELECT failure_reason FROM wh_outbox WHERE message_id = '${rowId}';`],
  ['its data', `SELECT event_data FROM wh_outbox WHERE message_id = '${rowId}';`],
  [
    'the blocking message of a stream',
    `SELECT message_id, created_at, attempts, scheduled_for
FROM wh_outbox
WHERE stream_id = '${otherId}'
ORDER BY created_at ASC
LIMIT 1;`,
  ],
  ['whether it is poison', `SELECT attempts FROM wh_outbox WHERE message_id = '${rowId}';`],
  [
    'a row of the sentinel',
    `SELECT message_type, stream_id, attempts, status, failure_reason, error, instance_id, lease_expiry, created_at FROM wh_outbox WHERE message_id = '${rowId}';`,
  ],
  [
    'stuck rows per type',
    `SELECT message_type, COUNT(*) AS stuck_count, MAX(attempts) AS max_attempts
FROM wh_outbox
WHERE attempts > 10 AND processed_at IS NULL
GROUP BY message_type
ORDER BY stuck_count DESC;`,
  ],
  [
    'time since stuck',
    `SELECT
  message_type,
  MIN(created_at) AS oldest_stuck,
  MAX(created_at) AS newest_stuck,
  AVG(attempts)::INT AS avg_attempts
FROM wh_outbox
WHERE attempts > 10 AND processed_at IS NULL
GROUP BY message_type;`,
  ],
];

let database: Awaited<ReturnType<typeof migratedDatabase>>;
let client: pg.Client;
beforeAll(async () => {
  database = await migratedDatabase();
  client = new pg.Client({ connectionString: database.url });
  client.on('error', () => undefined);
  await client.connect();
  await client.query('set search_path to whizbang');
  const table = new WorkTable('outbox', database.pool);
  await table.store(['a1', 'b1']);
  await table.set(`message_id = '${rowId}', attempts = 11, status = 32769, scheduled_for = now() + interval '1 hour'`, [
    'a1',
  ]);
});
afterAll(async () => {
  await client.end();
  await database.close();
});

describe('with search_path set to the schema, the statement of the specification runs', () => {
  test.each(statements)('%s', async (_, statement) => {
    expect((await client.query(statement)).rows.length).toBeLessThanOrEqual(1);
  });

  test('a failure as it is written there, with the variables of its function', async () => {
    await client.query(`do $$
declare
  p_now timestamptz := now();
  v_failure record;
begin
  select '${rowId}'::uuid as msg_id, 3 as status_flags, 'no route' as error_message, null::integer as failure_reason into v_failure;
  UPDATE wh_outbox o
SET status = o.status | v_failure.status_flags | 32768,  -- Add completed flags + Failed flag
    error = v_failure.error_message,
    failure_reason = COALESCE(v_failure.failure_reason, 0),
    -- Exponential backoff: 30s * 2^attempts, capped at 5 minutes
    scheduled_for = p_now + (INTERVAL '30 seconds' * LEAST(POWER(2, LEAST(o.attempts, 10)), 10)),
    instance_id = NULL,
    lease_expiry = NULL
WHERE o.message_id = v_failure.msg_id;
end $$`);
    const { rows } = await client.query(
      `select status, error, failure_reason, round(extract(epoch from scheduled_for - now()))::integer between 295 and 300 as in_five_minutes
       from wh_outbox where message_id = '${rowId}'`,
    );
    expect(rows).toEqual([{ status: 32771, error: 'no route', failure_reason: 0, in_five_minutes: true }]);
  });

  test.each(['outbox', 'inbox'])('the index of the sentinel of the %s, which is there already', async (name) => {
    await client.query(`CREATE INDEX IF NOT EXISTS idx_${name}_stuck_sentinel
  ON wh_${name} (attempts)
  WHERE processed_at IS NULL AND attempts > 5;`);
    const { rows } = await client.query<{ indexdef: string }>(
      `select indexdef from pg_indexes where indexname = 'idx_${name}_stuck_sentinel'`,
    );
    // Ours, which no claim touches: a stored flag stands for attempts > 5.
    expect(rows.map((row) => row.indexdef)).toEqual([expect.stringContaining('past_sentinel')]);
  });

  test.each([
    ['parked', 'infinity'],
    ['due at once', null],
  ])('a message that an operator %s by hand', async (_, when) => {
    await client.query('UPDATE wh_outbox SET scheduled_for = $1 WHERE message_id = $2', [when, rowId]);
    const { rows } = await client.query<{ scheduled_for: unknown }>(
      `SELECT scheduled_for::text FROM wh_outbox WHERE message_id = '${rowId}'`,
    );
    expect(rows[0]?.scheduled_for).toBe(when);
  });
});
