import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@whizbang/core/transport';
import { createTransport } from '@whizbang/transport-kafka';

// Tells how often the event loop turns, and how busy the process is, while a transport with one subscription idles.
const topic = process.env['TOPIC'] ?? '';
const seconds = Number(process.env['SECONDS'] ?? 3);
const transport = createTransport(process.env['KAFKA'] ?? '');
await transport.connect({ logger: silentLogger, onReadyChange: () => undefined });
const bindings = [{ destination: topic, messageTypes: ['a'] }];
const request = { service: `idle-${topic}`, bindings, ordered: true, maxBatch: 1, prefetch: 1 };
const subscription = await transport.subscribe(request, async () => undefined);
await subscription.established;
await delay(1_000);

const turns = (): number =>
  (performance.nodeTiming as unknown as { uvMetricsInfo: { loopCount: number } }).uvMetricsInfo.loopCount;
const [before, cpu] = [turns(), process.cpuUsage()];
await delay(seconds * 1_000);
const { user, system } = process.cpuUsage(cpu);
const wakeUps = Math.round((turns() - before) / seconds);
const cpuPercent = Math.round((user + system) / seconds / 100) / 100;
process.stdout.write(`${JSON.stringify({ wakeUps, cpuPercent })}\n`);
await transport.close();
