import assert from 'node:assert/strict';
import { assertAllConfirmed, describeOutcome } from '../assertions.js';
import { type ThemedCheck, check, theme } from '../check.js';
import { type MessageParts, messageTo } from '../messages.js';
import { idOf } from '../receiver.js';

/** Not every broker can carry everything; but then the message is refused for good, never changed, and alone. */
function carriedOrRefused(name: string, makeParts: () => MessageParts): ThemedCheck {
  return check(name, [], async (stage) => {
    const destination = stage.destination();
    const transport = await stage.transport();
    const receiver = await stage.receive(transport, { service: stage.service(), destination });
    const [before, odd, after] = [messageTo(destination), messageTo(destination, makeParts()), messageTo(destination)];
    const [first, outcome, last] = await transport.publish([before, odd, after]);
    assert.deepEqual([first, last].map(describeOutcome), ['confirmed', 'confirmed'], 'its neighbours');
    const refused = outcome?.kind === 'failed' && !outcome.retryable;
    assert.ok(outcome?.kind === 'confirmed' || refused, `carried, or refused for good: ${describeOutcome(outcome)}`);
    // Nor does it harm what comes later.
    const next = messageTo(destination);
    assertAllConfirmed(await transport.publish([next]), [next]);
    await receiver.accepted.untilCount(refused ? 3 : 4);
    const arrived = receiver.accepted.items.find((delivery) => idOf(delivery) === odd.messageId);
    assert.equal(arrived === undefined, refused, 'refused messages do not arrive');
    if (arrived === undefined) return;
    assert.deepEqual({ ...arrived.headers }, { ...odd.headers });
    assert.deepEqual({ ...arrived.attributes }, { ...odd.attributes });
  });
}

export const extremes = theme('carried or refused', [
  carriedOrRefused('headers of 60 KB in all', () => ({ headers: manyHeaders(60) })),
  carriedOrRefused('headers of 200 KB in all', () => ({ headers: manyHeaders(200) })),
  carriedOrRefused('a header of 100 KB', () => ({ headers: { large: 'x'.repeat(100_000) } })),
  carriedOrRefused('a header name of 300 bytes', () => ({ headers: { ['n'.repeat(300)]: 'value' } })),
  carriedOrRefused('a header name of no bytes', () => ({ headers: { '': 'value' } })),
  carriedOrRefused('a header with NUL', () => ({ headers: { nul: 'a\0b', 'n\0l': 'c' } })),
  carriedOrRefused('a header with a lone surrogate', () => ({ headers: { lone: 'a\ud83db' } })),
  carriedOrRefused('a header name with a lone surrogate', () => ({ headers: { 'a\ud83db': 'value' } })),
  carriedOrRefused('an attribute with a lone surrogate', () => ({ attributes: { subject: 'a\ud83db' } })),
  carriedOrRefused('a body that is not JSON', () => ({ body: Buffer.from([0xff, 0xfe, 0x00, 0x80]) })),
  carriedOrRefused('a body of no bytes', () => ({ body: Buffer.alloc(0) })),
]);

function manyHeaders(kilobytes: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: kilobytes }, (_, n) => [`header-${n}`, 'x'.repeat(1_000)]));
}
