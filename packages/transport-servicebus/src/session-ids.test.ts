import type { OutgoingMessage } from '@whizbang/core/transport';
import { expect, test } from 'vitest';
import { SessionIds } from './session-ids.js';

function message(streamId: string | null, partitionkey?: string): OutgoingMessage {
  return {
    messageId: 'id-1',
    destination: 'orders',
    messageType: 'orders.placed',
    streamId,
    attributes: partitionkey === undefined ? {} : { partitionkey },
    headers: {},
    body: Buffer.from('{}'),
  };
}

test("a stream's session is the user's key where that fits, else the id of the stream", () => {
  const ids = new SessionIds({ sessions: true, sharedSessions: 2 });
  expect(ids.sessionOf(message('stream', 'order 7'))).toBe('order 7');
  expect(ids.sessionOf(message('stream', 'x'.repeat(128)))).toBe('x'.repeat(128));
  for (const unfit of ['x'.repeat(129), '', '\ud83d', undefined]) {
    expect(ids.sessionOf(message('stream', unfit))).toBe('stream');
  }
});

test('messages without a stream take turns in the sessions for them', () => {
  const ids = new SessionIds({ sessions: true, sharedSessions: 3 });
  const taken = Array.from({ length: 6 }, () => ids.sessionOf(message(null)));
  expect(new Set(taken).size).toBe(3);
  expect(taken.slice(0, 3)).toEqual(taken.slice(3));
});

test('without sessions there are no session ids', () => {
  const ids = new SessionIds({ sessions: false, sharedSessions: 3 });
  expect([message(null), message('stream', 'key')].map((each) => ids.sessionOf(each))).toEqual([undefined, undefined]);
});
