import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';

import { expect, test } from 'vitest';

import { testProgram } from '../fixtures/test-services.js';
import { waitFor } from '../fixtures/wait-for.js';
import { Stage } from './service.js';
import { streamOf } from './work-rows.js';

const dying = fileURLToPath(new URL('../dist/failure/dying-handler.process.js', import.meta.url));

test.each(['exit', 'SIGKILL'])(
  'a message that ends its process (%s) ten times is given up, and its neighbours are handled',
  async (death) => {
    const stage = await Stage.open();
    const poison = 4;
    // The poison in the middle, its own stream's next message behind it, the others in streams of their own or in none.
    const streams = ['a', 'b', null, 'c', 'poison', 'poison', 'd', null, 'e', 'f'];
    const all = <Value>(value: Value) => streams.map(() => value);
    await stage.query('select whizbang.store_inbox_messages($1::uuid[], $2, $3, $4, $5, $6, $7::uuid[])', [
      streams.map(() => randomUUID()),
      all('shipping/numbered'),
      all('numbered'),
      all('numbers'),
      streams.map((_, n) => JSON.stringify({ n })),
      all('{}'),
      streams.map((stream) => (stream === null ? null : streamOf(stream.slice(0, 6)))),
    ]);

    let deaths = 0;
    const isDead = async () => (await stage.count('wh_dead_letters')) === 1;
    while (!(await isDead())) {
      const program = testProgram(dying, { DATABASE_URL: stage.url, POISON: String(poison), DEATH: death });
      let exited = false;
      void program.exited.then(() => (exited = true));
      await waitFor(async () => exited || (await isDead()), { message: `death ${deaths + 1}`, timeoutMs: 30_000 });
      if (exited) deaths += 1;
      if (deaths > 10) throw new Error(`It was tried more than ten times; the last said: ${program.output}`);
      if (!exited) {
        await waitFor(async () => (await stage.count('wh_inbox', 'processed_at is null')) === 0, {
          message: 'the neighbours',
          timeoutMs: 20_000,
        });
      }
    }
    expect(deaths).toBe(10);
    expect(await stage.dead()).toMatchObject([
      { n: poison, failure_reason: 5, last_failure_reason: 6, attempts_when_dlq: 10, source_table: 'wh_inbox' },
    ]);
    const neighbours = await stage.query<{ n: number; attempts: number }>(
      `select (event_data ->> 'n')::integer as n, attempts from whizbang.wh_inbox where processed_at is not null order by n`,
    );
    expect(neighbours.map((row) => row.n)).toEqual([0, 1, 2, 3, 5, 6, 7, 8, 9]);
    // Dragged along twice at the most; from then on suspects are tried alone.
    expect(Math.max(...neighbours.map((row) => row.attempts))).toBeLessThanOrEqual(3);
  },
  150_000,
);
