import type pg from 'pg';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { schemaName } from '../database/schema-name.js';
import { InstanceIdentity } from '../runtime/instance-identity.js';
import { Heartbeat } from './heartbeat.js';

const intervalMs = 10_000;

/** What the database knows of instances; it can keep its answers to itself, or lose them. */
class Instances {
  readonly registered = new Set<string>();
  answers: 'given' | 'lost' | 'kept' = 'given';

  async query(text: string, [id]: readonly string[]): Promise<{ rows: object[] }> {
    if (text.includes('deregister_instance')) this.registered.delete(id ?? '');
    else await this.#register(id ?? '');
    return { rows: [{ dead: null, outbox_after: null, inbox_after: null }] };
  }

  async #register(id: string): Promise<void> {
    if (this.answers === 'kept') await new Promise(() => undefined);
    this.registered.add(id);
    if (this.answers === 'lost') throw new Error('Connection terminated unexpectedly');
  }
}

let instances: Instances;
let identity: InstanceIdentity;
let heartbeat: Heartbeat;

beforeEach(async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  instances = new Instances();
  identity = new InstanceIdentity();
  const nothing = () => undefined;
  heartbeat = new Heartbeat({
    pool: instances as unknown as pg.Pool,
    schema: schemaName('whizbang'),
    service: 'orders',
    identity,
    logger: { debug: nothing, info: nothing, warn: nothing, error: nothing },
    parts: { publishes: true, handles: true },
  });
  await heartbeat.start();
});

test('an instance is forgotten at its stop although its last beat is not answered', async () => {
  instances.answers = 'kept';
  await vi.advanceTimersByTimeAsync(intervalMs);
  const stopped = heartbeat.stop();
  await vi.advanceTimersByTimeAsync(1_000);
  await stopped;
  expect(instances.registered).toEqual(new Set());
});

test('an id whose registration came through and was not answered is forgotten with the next beat', async () => {
  identity.renew();
  instances.answers = 'lost';
  await vi.advanceTimersByTimeAsync(intervalMs);
  expect(instances.registered.size).toBe(2);
  identity.renew();
  instances.answers = 'given';
  await vi.advanceTimersByTimeAsync(intervalMs);
  expect(instances.registered).toEqual(new Set([identity.current]));
  await heartbeat.stop();
  expect(instances.registered).toEqual(new Set());
});

test('and at the stop, when no beat comes after it', async () => {
  identity.renew();
  instances.answers = 'lost';
  await vi.advanceTimersByTimeAsync(intervalMs);
  await heartbeat.stop();
  expect(instances.registered).toEqual(new Set());
});
