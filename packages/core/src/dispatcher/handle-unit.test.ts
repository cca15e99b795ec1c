import { EventEmitter } from 'node:events';
import type pg from 'pg';
import { expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { defineMessage } from '../contract/message-definition.js';
import type { InboxStore } from '../inbox/inbox-store.js';
import type { HeldMessage } from '../runtime/lanes.js';
import { LeaseEnding, handleUnit } from './handle-unit.js';

const Slow = defineMessage('slow', { schema: z.object({}), destination: 'slow' });

/** A connection that answers what is asked of it, except for what the handler asks; that waits until it is cut. */
class HangingClient extends EventEmitter {
  readonly connection = { stream: { destroy: () => this.#cut() } };
  isCut = false;
  #hanging: ((error: Error) => void) | undefined;

  async query(text: string): Promise<pg.QueryResult> {
    if (this.isCut) throw new Error('Client was closed and is not queryable');
    if (text === 'hang') await new Promise((_, reject) => (this.#hanging = reject));
    return { rows: [] } as unknown as pg.QueryResult;
  }

  release(): void {
    this.removeAllListeners();
  }

  #cut(): void {
    this.isCut = true;
    this.emit('end');
    this.#hanging?.(new Error('Connection terminated'));
  }
}

function settingsOf(client: HangingClient, holds: () => boolean) {
  return {
    pool: { connect: async () => client } as unknown as pg.Pool,
    store: {} as InboxStore,
    retainCompleted: false,
    longestMs: 60_000,
    publish: () => Promise.reject(new Error('it publishes nothing')),
    holds,
  };
}

const row = { messageId: 'm', messageType: 'slow', eventData: '{}', metadata: '{}', attempts: 1, holder: 'h' };
const unit = { messageType: 'slow', rows: [row as HeldMessage] };

test('a handler that hangs in a statement until its lease ends has failed, and that counts as a try', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const client = new HangingClient();
  const lease = new AbortController();
  const handled = handleUnit(
    unit,
    { definition: Slow, maxBatch: 1, run: async ([message]) => void (await message?.context.tx.query('hang')) },
    settingsOf(client, () => true),
    lease.signal,
  );
  await vi.advanceTimersByTimeAsync(1);
  lease.abort(new LeaseEnding('the lease of this message is about to end'));
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await handled).toMatchObject({ kind: 'failed' });
  expect(client.isCut).toBe(true);
});

test('a handler is not begun when the lease has run out in the wait for its transaction', async () => {
  const run = vi.fn<() => void>();
  const settings = settingsOf(new HangingClient(), () => false);
  const handled = await handleUnit(
    unit,
    { definition: Slow, maxBatch: 1, run },
    settings,
    new AbortController().signal,
  );
  expect(handled).toEqual({ kind: 'lost' });
  expect(run).not.toHaveBeenCalled();
});
