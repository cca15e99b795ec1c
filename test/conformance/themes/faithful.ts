import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Delivery, OutgoingMessage } from '@whizbang/core/transport';
import { assertAllConfirmed } from '../assertions.js';
import { check, theme } from '../check.js';
import { type MessageParts, messageTo, newStream } from '../messages.js';
import type { Stage } from '../stage.js';

/** Sends one message through the broker and compares everything that arrives. */
async function assertArrivesUnchanged(
  stage: Stage,
  parts: MessageParts,
): Promise<{ sent: OutgoingMessage; arrived: Delivery }> {
  const destination = stage.destination();
  const transport = await stage.transport();
  const receiver = await stage.receive(transport, { service: stage.service(), destination });
  const sent = messageTo(destination, parts);
  assertAllConfirmed(await transport.publish([sent]), [sent]);
  await receiver.accepted.untilCount(1);
  const arrived = receiver.accepted.items[0];
  assert.ok(arrived !== undefined);
  assert.deepEqual({ ...arrived.headers }, { ...sent.headers }, 'headers');
  assert.deepEqual({ ...arrived.attributes }, { ...sent.attributes }, 'attributes');
  // Not deepEqual: its report of two differing megabytes takes minutes.
  assert.ok(arrived.body.equals(sent.body), `body: ${arrived.body.length} bytes of ${sent.body.length}, or other ones`);
  return { sent, arrived };
}

function bodyCheck(name: string, json: () => string): ReturnType<typeof check> {
  return check(name, [], async (stage) => {
    const { arrived } = await assertArrivesUnchanged(stage, { body: Buffer.from(json()) });
    assert.ok(Buffer.isBuffer(arrived.body), 'the body is a Buffer');
  });
}

export const faithful = theme('faithful', [
  check('attributes arrive as they were sent', [], async (stage) => {
    await assertArrivesUnchanged(stage, {
      stream: newStream(),
      attributes: {
        source: '/bestellungen/größe',
        subject: 'Ordnung muß sein 🧾',
        dataschema: 'https://example.org/schema?v=1&w=2',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        correlationid: '0195f3a0-0000-7000-8000-000000000001',
        empty: '',
      },
    });
  }),

  check('200 headers arrive as they were sent', [], async (stage) => {
    const headers = Object.fromEntries(
      Array.from({ length: 200 }, (_, n) => [`X-Header-${n}`, `value ${n} `.repeat(5)]),
    );
    await assertArrivesUnchanged(stage, { headers });
  }),

  check('headers keep unicode keys and values, case, white space and emptiness', [], async (stage) => {
    await assertArrivesUnchanged(stage, {
      headers: {
        '🐇': '🕳️',
        größe: 'straße',
        UPPER: 'Case',
        upper: 'case',
        'with space': ' padded ',
        none: '',
        lines: 'a\r\nb\tc',
      },
    });
  }),

  check('headers named like attributes stay headers', [], async (stage) => {
    await assertArrivesUnchanged(stage, {
      headers: { id: 'h1', type: 'h2', source: 'h3', time: 'h4', 'content-type': 'h5', messageId: 'h6', subject: 'h7' },
    });
  }),

  check('headers that a wire format or a broker might take for its own stay headers', [], async (stage) => {
    const names = [
      'cloudEvents_id',
      'cloudEvents:type',
      'ce_id',
      'ce-type',
      'x-death',
      'CC',
      'BCC',
      'Diagnostic-Id',
      'constructor',
    ];
    const headers = Object.fromEntries([...names, '__proto__'].map((name) => [name, `value of ${name}`]));
    await assertArrivesUnchanged(stage, { headers });
  }),

  check('a header that looks like a number or a flag stays text', [], async (stage) => {
    await assertArrivesUnchanged(stage, {
      headers: { n: '007', big: '12345678901234567890', flag: 'true', nothing: 'null' },
    });
  }),

  bodyCheck('an empty object', () => '{}'),
  bodyCheck('a body of 1 MB', () => JSON.stringify({ data: randomBytes(500_000).toString('hex') })),
  bodyCheck('a nest of 1,000 levels', () => '{"a":['.repeat(500) + ']}'.repeat(500)),
  bodyCheck(
    'NUL and lone surrogates, escaped',
    () => String.raw`{"nul":"a\u0000b","high":"\ud83d","low":"\ude00","pair":"\ud83d\ude00"}`,
  ),
  bodyCheck(
    'JSON text that a parser would change',
    () => '{ "n" : 12345678901234567890, "f":1.0, "f":1e2,\n "x":"\u2028\u2029 😀 é" }',
  ),
  bodyCheck('a scalar', () => '"just text"'),

  check('the sender may reuse its buffer', [], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service: stage.service(), destination });
    const text = '{"text":"as it was when it was published"}';
    const sent = messageTo(destination, { body: Buffer.from(text) });
    assertAllConfirmed(await transport.publish([sent]), [sent]);
    sent.body.fill(0);
    await receiver.accepted.untilCount(1);
    assert.equal(receiver.accepted.items[0]?.body.toString(), text);
  }),

  check('a delivery names its destination, and a first one is not marked redelivered', [], async (stage) => {
    const { sent, arrived } = await assertArrivesUnchanged(stage, {});
    assert.equal(arrived.destination, sent.destination);
    assert.equal(arrived.redelivered, false);
  }),
]);
