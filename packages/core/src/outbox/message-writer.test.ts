import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { PublishOptions } from '../contract/message-context.js';
import type { MessageMetadata } from '../contract/message-metadata.js';
import { defineMessage } from '../contract/message-definition.js';
import { isUuid } from '../contract/stream-id.js';
import { MessageRefusedError } from '../errors/whizbang-error.js';
import { writeMessage } from './message-writer.js';

const OrderPlaced = defineMessage('orders.placed', {
  schema: z.object({ orderId: z.string(), lines: z.array(z.object({ count: z.number() })).optional() }),
  destination: 'orders',
});
const keyed = (stream: () => string | null) =>
  defineMessage('orders.placed', { schema: z.unknown(), destination: 'orders', stream });

const write = (options: PublishOptions = {}, payload: unknown = { orderId: '1' }) =>
  writeMessage(OrderPlaced, payload, options, undefined);
const issuesOf = async (writing: Promise<unknown>): Promise<readonly string[]> => {
  const error: unknown = await writing.then(
    () => new Error('it was written'),
    (refusal: unknown) => refusal,
  );
  expect(error).toBeInstanceOf(MessageRefusedError);
  return (error as MessageRefusedError).issues;
};
const metadataOf = (row: { metadata: string }) => JSON.parse(row.metadata) as MessageMetadata;

test('a message begins a conversation of its own', async () => {
  const row = await write();
  expect(isUuid(row.messageId)).toBe(true);
  expect(row).toMatchObject({
    destination: 'orders',
    eventData: '{"orderId":"1"}',
    streamId: null,
    scheduledFor: null,
  });
  expect(metadataOf(row)).toEqual({
    correlationId: row.messageId,
    time: expect.stringMatching(/^\d{4}-.*Z$/) as string,
  });
});

test('a message that is published in a handler goes on with the conversation and names its cause', async () => {
  const cause = { messageId: 'm', correlationId: 'c' };
  expect(metadataOf(await writeMessage(OrderPlaced, { orderId: '1' }, {}, cause))).toMatchObject({
    correlationId: 'c',
    causationId: 'm',
  });
  const own = await writeMessage(OrderPlaced, { orderId: '1' }, { correlationId: 'mine' }, cause);
  expect(metadataOf(own).correlationId).toBe('mine');
});

test('200 headers travel as they are', async () => {
  const headers = Object.fromEntries(
    Array.from({ length: 200 }, (_, index) => [`x-header-${index}`, `välue ${index}`]),
  );
  expect(metadataOf(await write({ headers })).headers).toEqual(headers);
});

test('an id of the caller, in lower case, and a time are taken over', async () => {
  const scheduledFor = new Date(0);
  const row = await write({ messageId: '0190AAAA-0000-7000-8000-000000000001', scheduledFor });
  expect(row).toMatchObject({ messageId: '0190aaaa-0000-7000-8000-000000000001', scheduledFor });
});

describe('is refused before anything reaches the database:', () => {
  test('a payload that breaks its schema, with every path', async () => {
    expect(await issuesOf(write({}, { lines: [{ count: 'one' }] }))).toEqual([
      expect.stringMatching(/^orderId: /),
      expect.stringMatching(/^lines\.0\.count: /),
    ]);
  });

  test('a payload that JSON would change', async () => {
    expect(
      await issuesOf(
        writeMessage(
          keyed(() => null),
          { n: 1n },
          {},
          undefined,
        ),
      ),
    ).toEqual([expect.stringContaining('$.n is a BigInt')]);
  });

  test.each<readonly [string, PublishOptions, RegExp]>([
    ['a reserved header', { headers: { 'ce-type': 'x' } }, /header name "ce-type"/],
    ['a reserved header of a broker', { headers: { 'x-death': 'x' } }, /header name "x-death"/],
    ['a header of CloudEvents over AMQP', { headers: { 'cloudEvents:id': 'x' } }, /header name/],
    ['a header name with a space', { headers: { 'a b': 'x' } }, /header name "a b"/],
    ['a header without a name', { headers: { '': 'x' } }, /header name ""/],
    ['a header with a NUL character', { headers: { a: '\0' } }, /header a has a NUL/],
    ['a header that is no text', { headers: { a: 1 as unknown as string } }, /header a must be a string/],
    ['headers beyond what brokers take', { headers: { a: 'x'.repeat(49 * 1024) } }, /the headers have 50177 bytes/],
    ['an id that is no UUID', { messageId: '1' }, /messageId must be a UUID/],
    ['the all-zero UUID as id', { messageId: '00000000-0000-0000-0000-000000000000' }, /messageId must be a UUID/],
    ['a long correlation id', { correlationId: 'x'.repeat(129) }, /correlationId has more than 128/],
    ['a time that is none', { scheduledFor: new Date(Number.NaN) }, /scheduledFor is not a valid date/],
    ['a time as text', { scheduledFor: '2030-01-01' as unknown as Date }, /scheduledFor is not a valid date/],
  ])('%s', async (_, options, sentence) => {
    expect(await issuesOf(write(options))).toEqual([expect.stringMatching(sentence)]);
  });

  test('several things at once, all of them named', async () => {
    const issues = await issuesOf(write({ messageId: '1', headers: { 'ce-id': 'x' } }, {}));
    expect(issues).toHaveLength(3);
  });
});

describe('the key of a stream', () => {
  const streamOf = async (key: string | null) => {
    const row = await writeMessage(
      keyed(() => key),
      {},
      {},
      undefined,
    );
    return [row.streamId, metadataOf(row).streamKey];
  };

  test('is the id when it is a UUID, in lower case, and the key stays as it was', async () => {
    const key = '0190AAAA-0000-7000-8000-000000000001';
    expect(await streamOf(key)).toEqual([key.toLowerCase(), key]);
  });

  test('gives a UUID that follows from it when it is another text', async () => {
    const [id, key] = await streamOf('order 1');
    expect([isUuid(id ?? ''), key]).toEqual([true, 'order 1']);
    expect(await streamOf('order 1')).toEqual([id, key]);
    expect((await streamOf('order 2'))[0]).not.toBe(id);
  });

  test('null means no stream', async () => {
    expect(await streamOf(null)).toEqual([null, undefined]);
  });

  test.each([
    ['00000000-0000-0000-0000-000000000000', /EmptyStreamId/],
    ['', /not empty/],
    ['a\0', /NUL/],
    ['\ud83d', /lone surrogate/],
    ['x'.repeat(129), /129 characters/],
    [5 as unknown as string, /must be a text/],
  ])('may not be %j', async (key, sentence) => {
    expect(await issuesOf(streamOf(key))).toEqual([expect.stringMatching(sentence)]);
  });
});
