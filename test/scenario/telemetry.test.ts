import { context, metrics, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  type DataPoint,
  type ResourceMetrics,
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { type MessageContext, type Whizbang, defineMessage } from '@whizbang/core';
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { TcpGate } from '../fixtures/network/tcp-gate.js';
import { waitFor } from '../fixtures/wait-for.js';
import { OrderChanged } from './orders.js';
import { atEnd, inTransaction, migratedDatabase, testService } from './test-service.js';
import { TraceParent } from './trace-parent.js';

const Followed = defineMessage('orders.followed', {
  schema: z.object({ order: z.string() }),
  destination: 'orders',
});

// The counters of the other two are counted below.
const Traced = defineMessage('orders.traced', { schema: z.object({ order: z.string() }), destination: 'traced' });

const spans = new InMemorySpanExporter();
const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
const meters = new MeterProvider({ readers: [reader] });

let pool: pg.Pool;
let whizbang: Whizbang;
const handled: { type: string; context: MessageContext }[] = [];

beforeAll(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new TraceParent());
  trace.setGlobalTracerProvider(tracers);
  metrics.setGlobalMeterProvider(meters);
  const database = await migratedDatabase();
  pool = database.pool;
  whizbang = await testService({ database: database.url });
  whizbang.handle(OrderChanged, async ({ order }, message) => {
    handled.push({ type: 'changed', context: message });
    if (order === 'fails') throw new Error('as ordered');
    await message.publish(Followed, { order });
  });
  whizbang.handle(Followed, (_payload, message) => void handled.push({ type: 'followed', context: message }));
  await whizbang.start();
});

afterAll(async () => {
  await meters.shutdown();
  await tracers.shutdown();
});

test('correlation, causation and trace travel from the transaction to what the handler publishes', async () => {
  const { messageId, traceId } = await trace.getTracer('test').startActiveSpan('the request', async (span) => {
    const published = await inTransaction(pool, (tx) =>
      whizbang.publish(
        tx,
        OrderChanged,
        { order: 'a', number: 1 },
        { correlationId: 'conversation-1', headers: { tenant: 'x' } },
      ),
    );
    span.end();
    return { ...published, traceId: span.spanContext().traceId };
  });
  const followed = await waitFor(() => handled.find(({ type }) => type === 'followed'), {
    message: 'the second message',
  });
  const changed = handled.find(({ type }) => type === 'changed');
  expect(changed?.context).toMatchObject({
    messageId,
    correlationId: 'conversation-1',
    causationId: null,
    source: '/shipping',
    streamKey: 'a',
    headers: { tenant: 'x' },
    attempt: 1,
  });
  expect(followed.context).toMatchObject({
    correlationId: 'conversation-1',
    causationId: messageId,
    streamKey: null,
    headers: {},
  });

  const finished = await waitFor(() => (spans.getFinishedSpans().length >= 3 ? spans.getFinishedSpans() : undefined), {
    message: 'three spans',
  });
  expect(new Set(finished.map((span) => span.spanContext().traceId))).toEqual(new Set([traceId]));
  const [request, first, second] = finished;
  expect(first?.name).toBe('process orders.order-changed');
  expect(first?.parentSpanContext?.spanId).toBe(request?.spanContext().spanId);
  expect(second?.name).toBe('process orders.followed');
  expect(second?.parentSpanContext?.spanId).toBe(first?.spanContext().spanId);
});

test('a trace that nobody samples, a second try and a dead letter that comes back go on with the trace of their publisher', async () => {
  const traceIds = new Map<string, string[]>();
  const tried = new Map<string, number>();
  const database = await migratedDatabase();
  const service = await testService({
    database: database.url,
    failures: { baseSeconds: 0.02 },
    dispatcher: { maxInboxAttempts: 2 },
  });
  service.handle(Traced, ({ order }) => {
    traceIds.set(order, [...(traceIds.get(order) ?? []), trace.getActiveSpan()?.spanContext().traceId ?? 'none']);
    tried.set(order, (tried.get(order) ?? 0) + 1);
    if (order === 'dies' && (tried.get(order) ?? 0) <= 2) throw new Error('as ordered');
  });
  await service.start();
  const publishUnder = (traceId: string, traceFlags: number, order: string) =>
    context.with(
      trace.setSpanContext(context.active(), { traceId, spanId: '00f067aa0ba902b7', traceFlags, isRemote: true }),
      () => service.publishNow(Traced, { order }),
    );
  const [unsampled, dies] = ['4bf92f3577b34da6a3ce929d0e0e4736', '5bf92f3577b34da6a3ce929d0e0e4737'];
  await publishUnder(unsampled, 0, 'unsampled');
  await publishUnder(dies, 1, 'dies');
  await waitFor(async () => (await service.deadLetters.count()) === 1, { message: 'its death', timeoutMs: 20_000 });
  const [entry] = (await service.deadLetters.list()).entries;
  expect(await service.deadLetters.retry(entry?.deadLetterId ?? '', 'me')).toBe(true);
  await waitFor(() => tried.get('dies') === 3, { message: 'the try after its return', timeoutMs: 20_000 });
  expect(traceIds.get('unsampled')).toEqual([unsampled]);
  expect(traceIds.get('dies')).toEqual([dies, dies, dies]);
});

test('a batch goes on with the trace of its first message, and is linked to those of the others', async () => {
  const database = await migratedDatabase();
  const service = await testService({ database: database.url });
  const batches: string[][] = [];
  service.handleBatch(Traced, (messages) => void batches.push(messages.map(({ context: { messageId } }) => messageId)));
  const traceIds = [
    '6bf92f3577b34da6a3ce929d0e0e4731',
    '6bf92f3577b34da6a3ce929d0e0e4732',
    '6bf92f3577b34da6a3ce929d0e0e4733',
  ];
  const ids: string[] = [];
  for (const traceId of traceIds) {
    const request = trace.setSpanContext(context.active(), { traceId, spanId: '00f067aa0ba902b7', traceFlags: 1 });
    ids.push((await context.with(request, () => service.publishNow(Traced, { order: 'batch' }))).messageId);
  }
  await service.publishNow(Traced, { order: 'of no request' });
  await service.start();
  await waitFor(() => batches.flat().length === 4, { message: 'all to be handled' });
  const batch = await waitFor(
    () => spans.getFinishedSpans().find((span) => span.parentSpanContext?.traceId === traceIds[0]),
    { message: 'the span' },
  );
  expect(batches[0]?.slice(0, 3)).toEqual(ids);
  expect(batch.links.map((link) => [link.context.traceId, link.attributes?.['messaging.message.id']])).toEqual([
    [traceIds[1], ids[1]],
    [traceIds[2], ids[2]],
  ]);
});

test('a collection does not wait for a database that does not answer, and the next one asks again', async () => {
  const { url } = await migratedDatabase();
  const target = new URL(url);
  const gate = new TcpGate({ host: target.hostname, port: Number(target.port) });
  await gate.open();
  atEnd(() => gate.close());
  target.hostname = '127.0.0.1';
  target.port = String(gate.port);
  const service = await testService({ database: target.href, stopTimeoutMs: 100 });
  await service.start();
  gate.stall();
  const before = performance.now();
  await reader.forceFlush();
  expect(performance.now() - before).toBeLessThan(15_000);
  gate.resume();
  await waitFor(async () => (await service.backlog()).outbox.pending === 0, {
    message: 'the database',
    timeoutMs: 20_000,
  });
  await service.stop();
});

test('a conversation without a name takes the id of its first message', async () => {
  handled.length = 0;
  const { messageId } = await whizbang.publishNow(OrderChanged, { order: 'b', number: 1 });
  const followed = await waitFor(() => handled.find(({ type }) => type === 'followed'), {
    message: 'the second message',
  });
  expect(followed.context).toMatchObject({ correlationId: messageId, causationId: messageId });
});

test('counters, durations and backlog are there, and no id is an attribute', async () => {
  const { messageId } = await whizbang.publishNow(OrderChanged, { order: 'fails', number: 1 });
  await waitFor(() => whizbang.counters.handleFailed === 1, { message: 'the failure' });
  await reader.forceFlush();
  const points = pointsOf(exporter.getMetrics().at(-1));
  const value = (name: string, attributes: Record<string, string> = {}) =>
    (points.get(name) ?? [])
      .filter((point) => Object.entries(attributes).every(([key, wanted]) => point.attributes[key] === wanted))
      .reduce((sum, point) => sum + (typeof point.value === 'number' ? point.value : point.value.count), 0);

  const changed = { message_type: OrderChanged.type };
  expect(value('whizbang.outbox.stored', changed)).toBe(3);
  expect(value('whizbang.outbox.published', changed)).toBe(3);
  expect(value('whizbang.inbox.received', changed)).toBe(3);
  expect(value('whizbang.inbox.handled', changed)).toBe(2);
  expect(value('whizbang.inbox.handled', { message_type: Followed.type })).toBe(2);
  expect(value('whizbang.inbox.failed', { ...changed, reason: 'Unknown' })).toBe(1);
  expect(
    value('whizbang.inbox.handle.duration', changed) +
      value('whizbang.inbox.handle.duration', { message_type: Followed.type }),
  ).toBe(5);
  expect(value('whizbang.outbox.publish.duration')).toBeGreaterThan(0);
  expect(points.get('whizbang.backlog.pending')?.map(({ attributes }) => attributes['category'])).toEqual([
    'outbox',
    'inbox',
  ]);
  expect(points.get('whizbang.backlog.oldest_age')).toHaveLength(2);

  const attributes = JSON.stringify([...points.values()].flat().map((point) => point.attributes));
  expect(attributes).not.toContain(messageId);
  expect(attributes).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}/);
  expect(attributes).not.toContain('fails');
});

type Point = DataPoint<number | { count: number }>;

function pointsOf(collected: ResourceMetrics | undefined): Map<string, Point[]> {
  const all = collected?.scopeMetrics.flatMap(({ metrics: ours }) => ours) ?? [];
  return new Map(all.map(({ descriptor, dataPoints }) => [descriptor.name, dataPoints as Point[]]));
}
