import { type SpanContext, TraceFlags, context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { type MessageContext, PermanentError, RetryLater, defineMessage } from '@whizbang/core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { waitFor } from '../fixtures/index.js';
import { brokers } from './brokers/index.js';
import { NoteTaken } from './orders.js';
import { migratedDatabase, testService } from './test-service.js';
import { TraceParent } from './trace-parent.js';

const spans = new InMemorySpanExporter();
const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new TraceParent());
  trace.setGlobalTracerProvider(tracers);
});
beforeEach(() => spans.reset());
afterAll(() => tracers.shutdown());

/** Runs `work` as part of a request that somebody else traces. */
async function inRequest<Result>(work: () => Promise<Result>, traceFlags = TraceFlags.SAMPLED) {
  const request: SpanContext = {
    traceId: randomHex(32),
    spanId: randomHex(16),
    traceFlags,
  };
  const result = await context.with(trace.setSpanContext(context.active(), request), work);
  return { request, result };
}

const randomHex = (digits: number) =>
  Array.from({ length: digits }, () => (1 + Math.floor(Math.random() * 15)).toString(16)).join('');

const processed = (count: number): Promise<readonly ReadableSpan[]> =>
  waitFor(() => (spans.getFinishedSpans().length >= count ? spans.getFinishedSpans() : undefined), {
    message: `${count} spans`,
    timeoutMs: 30_000,
  });

describe.each(brokers)('through $name', (kind) => {
  test('a second try and a dead letter that is brought back belong to the trace of the request', async () => {
    const broker = await kind.shared();
    const { url } = await migratedDatabase();
    const whizbang = await testService({ database: url, broker: broker.url });
    let tries = 0;
    whizbang.handle(NoteTaken, () => {
      tries += 1;
      if (tries === 1) throw new RetryLater(10);
      if (tries === 2) throw new PermanentError('not yet');
    });
    await whizbang.start();
    const { request } = await inRequest(() => whizbang.publishNow(NoteTaken, { note: 'a' }));
    await waitFor(async () => (await whizbang.deadLetters.count()) === 1, {
      message: 'the dead letter',
      timeoutMs: 30_000,
    });
    const [dead] = (await whizbang.deadLetters.list()).entries;
    await whizbang.deadLetters.retry(dead?.deadLetterId ?? '', 'ada');
    const finished = await processed(3);
    expect(finished.map(({ name }) => name)).toEqual(Array(3).fill('process notes.note-taken'));
    for (const span of finished) expect(span.parentSpanContext).toMatchObject({ ...request, isRemote: true });
  }, 120_000);
});

describe('in one process', () => {
  const service = async (handler: (message: MessageContext) => void) => {
    const { url } = await migratedDatabase();
    const whizbang = await testService({ database: url });
    whizbang.handle(NoteTaken, (_note, message) => handler(message));
    await whizbang.start();
    return whizbang;
  };

  test('a request that is not sampled stays so', async () => {
    const traceIds: unknown[] = [];
    const whizbang = await service(() => void traceIds.push(trace.getSpanContext(context.active())?.traceId));
    const { request } = await inRequest(() => whizbang.publishNow(NoteTaken, { note: 'a' }), TraceFlags.NONE);
    await waitFor(() => traceIds.length === 1, { message: 'the handler' });
    expect(traceIds).toEqual([request.traceId]);
    // The default sampler does what the parent does.
    expect(spans.getFinishedSpans()).toEqual([]);
  });

  test('without a request each message begins a trace of its own, and a header of that name is a header', async () => {
    const headers: unknown[] = [];
    const whizbang = await service((message) => void headers.push(message.headers));
    const own = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
    await whizbang.publishNow(NoteTaken, { note: 'a' }, { headers: own });
    await whizbang.publishNow(NoteTaken, { note: 'b' });
    const finished = await processed(2);
    expect(headers).toEqual(expect.arrayContaining([own, {}]));
    expect(finished.map((span) => span.parentSpanContext)).toEqual([undefined, undefined]);
    expect(new Set(finished.map((span) => span.spanContext().traceId)).size).toBe(2);
  });

  test('a batch continues the trace of its first message and is linked to those of the others', async () => {
    const Counted = defineMessage('notes.counted', {
      schema: z.object({ number: z.number() }),
      destination: 'notes',
      stream: () => 'one',
    });
    const { url } = await migratedDatabase();
    const whizbang = await testService({ database: url });
    const batches: number[] = [];
    whizbang.handleBatch(Counted, (messages) => void batches.push(messages.length));
    const requests: SpanContext[] = [];
    const ids: string[] = [];
    for (const number of [1, 2, 3]) {
      const { request, result } = await inRequest(() => whizbang.publishNow(Counted, { number }));
      requests.push(request);
      ids.push(result.messageId);
    }
    await whizbang.start();
    await waitFor(() => batches.reduce((sum, size) => sum + size, 0) === 3, { message: 'all to be handled' });
    const finished = await processed(batches.length);
    // However they came: each is the parent of a span, or linked from one.
    const continued = finished.flatMap((span) => [
      span.parentSpanContext?.traceId,
      ...span.links.map((link) => link.context.traceId),
    ]);
    expect(continued).toEqual(requests.map(({ traceId }) => traceId));
    expect(batches).toEqual([3]);
    expect(finished[0]?.links.map((link) => link.attributes?.['messaging.message.id'])).toEqual(ids.slice(1));
  });
});
