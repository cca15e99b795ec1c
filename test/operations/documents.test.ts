import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import {
  type DeadLetterEntry,
  DeadLetterRecoveryStatus,
  DefaultDeadLetterRecoveryPolicy,
  MessageFailureReason,
  defaultPolicyByReason,
  failureReasonName,
} from '@whizbang/core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { InventoryPolicy } from './inventory-policy.js';
import { type OperatorsDatabase, insertRows, minutesAgo, operatorsDatabase } from './service.js';
import { blocksOfMarkdown, fill } from './sql-blocks.js';

const pathOf = (name: string) => fileURLToPath(new URL(`../../docs/${name}`, import.meta.url));
const documents = ['operations.md', 'sentinel.md', 'failure-handling.md', 'dead-letters.md'];

describe('the SQL of the documents', () => {
  const holder = '22222222-2222-4222-8222-222222222222';
  const stream = '11111111-1111-4111-8111-111111111111';
  let database: OperatorsDatabase;
  let values: Record<string, string> = {};

  beforeAll(async () => {
    database = await operatorsDatabase();
    const failed = { status: 32769, scheduled_for: minutesAgo(-5), failure_reason: 2, error: 'it broke' };
    const [messageId = ''] = await insertRows(database, 'wh_outbox', [
      { ...failed, attempts: 9, stream_id: stream },
      { stream_id: stream, blocked: true },
      { scheduled_for: 'infinity' },
      { attempts: 12 },
      { instance_id: holder, lease_expiry: minutesAgo(-1), attempts: 1 },
    ]);
    await insertRows(database, 'wh_inbox', [{ ...failed, attempts: 2 }]);
    const [deadLetterId = ''] = await insertRows(database, 'wh_dead_letters', [
      { error_text: 'it broke', error_fingerprint: '0123456789abcdef' },
      { recovery_status: 3, recovered_at: minutesAgo(200_000) },
    ]);
    await database.query(
      `insert into whizbang.wh_service_instances (instance_id, service_name, host_name, process_id) values ($1, 'desk', 'here', 1)`,
      [holder],
    );
    await database.query(`insert into whizbang.wh_duties values ('maintenance', $1, now() + interval '1 minute')`, [
      holder,
    ]);
    values = { message_id: messageId, stream_id: stream, dead_letter_id: deadLetterId, message_type: 'order-placed' };
  });
  afterAll(() => database.close());

  const blocks = documents.flatMap((name) =>
    blocksOfMarkdown(pathOf(name), 'sql').map((block) => [`${name} line ${block.line}`, block.text] as const),
  );

  test('is there', () => {
    expect(blocks.length).toBeGreaterThanOrEqual(20);
  });

  test.each(blocks)('%s reaches the rows that it speaks of', async (_, text) => {
    const client = await database.pool.connect();
    try {
      await client.query('begin');
      await client.query('set local search_path to whizbang');
      const { rowCount, rows } = await client.query<Record<string, unknown>>(fill(text, values));
      expect(rowCount).toBeGreaterThanOrEqual(1);
      // The functions answer whether they found it.
      const answers = Object.entries(rows[0] ?? {}).filter(([name]) => name.endsWith('_dead_letter'));
      expect(answers.every(([, answer]) => answer === true)).toBe(true);
    } finally {
      await client.query('rollback');
      client.release();
    }
  });
});

describe('dead-letters.md', () => {
  const entry: DeadLetterEntry = {
    deadLetterId: stringOf(1),
    sourceTable: 'wh_inbox',
    sourceId: stringOf(2),
    streamId: null,
    messageType: 'inventory.adjusted',
    destination: 'stock',
    failureReason: MessageFailureReason.ValidationError,
    lastFailureReason: null,
    errorText: null,
    errorFingerprint: null,
    attempts: 10,
    deadLetteredAt: new Date(0),
    generation: 'build-1',
    recoveryStatus: DeadLetterRecoveryStatus.Pending,
    recoveryAttempts: 0,
    grantedAttempts: 0,
    nextRecoveryAt: null,
    recoveredAt: null,
    parksStream: false,
    operatorDisposition: 0,
    operatorNotes: null,
    operatorActor: null,
    recoverable: true,
  };

  test('shows a policy that compiles', () => {
    const example = readFileSync(fileURLToPath(new URL('inventory-policy.ts', import.meta.url)), 'utf8');
    expect(blocksOfMarkdown(pathOf('dead-letters.md'), 'ts').map((block) => block.text)).toContain(example);
  });

  test('whose policy decides what it says, and asks the default for the rest', () => {
    const policy = new InventoryPolicy();
    expect(policy.getPolicy(entry)).toMatchObject({ name: 'InventorySpecific', maxRecoveryAttempts: 5 });
    const other = { ...entry, messageType: 'order-placed' };
    expect(policy.getPolicy(other)).toEqual(new DefaultDeadLetterRecoveryPolicy().getPolicy(other));
    expect(policy.getStreamMode(entry)).toBe('PerMessage');
    expect(policy.getStreamMode({ ...entry, streamId: stringOf(3) })).toBe('TailAware');
    expect(policy.shouldRecover({ ...entry, recoveryStatus: DeadLetterRecoveryStatus.HoldForReview })).toBe(false);
  });

  test('has the matrix of the code', () => {
    const text = readFileSync(pathOf('dead-letters.md'), 'utf8');
    for (const [reason, policy] of defaultPolicyByReason) {
      const minutes = policy.cooldownMs / 60_000;
      const [hold, none] = [policy.maxRecoveryAttempts === 0, policy.cooldownMs === 0];
      const cooldown = hold ? '' : none ? 'none' : minutes >= 60 ? `${minutes / 60} h` : `${minutes} min`;
      const end = policy.holdForReviewAfterExhaustion ? 'held for review' : 'permanently failed';
      const cells = [failureReasonName(reason), policy.name, String(policy.maxRecoveryAttempts), cooldown, end];
      expect(text).toContain(`| ${cells.join(' | ')} |`.replace('|  |', '| |'));
    }
    expect(defaultPolicyByReason.size).toBe(9);
  });
});

describe.each(['seeds.md', 'field-reports.md'])('%s', (document) => {
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const text = readFileSync(pathOf(document), 'utf8');
  // `file` "title", and further titles of the same file.
  const named = [...text.matchAll(/`((?:test|packages)\/[\w./-]+\.ts)` ("[^"]+"(?:, "[^"]+")*)/g)].flatMap(
    ([, file = '', titles = '']) => [...titles.matchAll(/"([^"]+)"/g)].map(([, title = '']) => [file, title] as const),
  );

  test('names many tests', () => {
    expect(named.length).toBeGreaterThan(40);
  });

  test.each(named)('%s has "%s"', (file, title) => {
    expect(existsSync(`${root}${file}`)).toBe(true);
    expect(readFileSync(`${root}${file}`, 'utf8')).toContain(title);
  });
});

function stringOf(digit: number): string {
  return `00000000-0000-4000-8000-00000000000${digit}`;
}
