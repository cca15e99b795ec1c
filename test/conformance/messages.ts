import { randomUUID } from 'node:crypto';
import type { OutgoingMessage } from '@whizbang/core/transport';

export const defaultType = 'conformance.happened';

export interface MessageParts {
  readonly type?: string;
  readonly stream?: string | null;
  readonly attributes?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

/** A message as core makes it; without a stream unless one is given. */
export function messageTo(destination: string, parts: MessageParts = {}): OutgoingMessage {
  const messageId = randomUUID();
  const messageType = parts.type ?? defaultType;
  const streamId = parts.stream ?? null;
  return {
    messageId,
    destination,
    messageType,
    streamId,
    attributes: {
      specversion: '1.0',
      id: messageId,
      type: messageType,
      source: '/conformance',
      time: '2026-01-02T03:04:05.678Z',
      datacontenttype: 'application/json',
      ...(streamId === null ? {} : { partitionkey: streamId }),
      ...parts.attributes,
    },
    headers: { ...parts.headers },
    body: parts.body ?? Buffer.from('{"conformance":true}'),
  };
}

export function messagesTo(destination: string, count: number, parts: MessageParts = {}): OutgoingMessage[] {
  return Array.from({ length: count }, () => messageTo(destination, parts));
}

/** Messages of many streams, in turn: the first of each stream, then the second of each, and so on. */
export function interleaved(destination: string, streams: number, each: number): OutgoingMessage[] {
  const ids = Array.from({ length: streams }, () => randomUUID());
  return Array.from({ length: each }, () => ids.map((stream) => messageTo(destination, { stream }))).flat();
}

export function newStream(): string {
  return randomUUID();
}
