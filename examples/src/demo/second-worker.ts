import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import type { WhizbangCounters } from '@whizbang/core';
import { type Program, runProgram } from '@whizbang/test/fixtures';
import type pg from 'pg';

const program = fileURLToPath(new URL('shipping-worker.process.js', import.meta.url));

/** What the second process had in hand when it was killed. */
export interface Killed {
  readonly pid: number;
  /** Message ids. */
  readonly held: readonly string[];
}

/** A second process of the shipping service, to be killed at the worst moment. */
export class SecondWorker implements AsyncDisposable {
  readonly #program: Program;
  readonly #instanceId: string;

  private constructor(running: Program, instanceId: string) {
    this.#program = running;
    this.#instanceId = instanceId;
  }

  static async start(database: string, broker: string): Promise<SecondWorker> {
    const running = runProgram(program, { DATABASE_URL: database, BROKER_URL: broker });
    try {
      const { instanceId } = await running.waitForMessage((said) => 'instanceId' in said, {
        message: 'the second shipping process to start',
        timeoutMs: 20_000,
      });
      return new SecondWorker(running, String(instanceId));
    } catch (error) {
      await running[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    return this.#program.pid;
  }

  /** What it said last about itself. */
  get counters(): WhizbangCounters | undefined {
    const said = this.#program.messages.findLast((message) => 'counters' in message);
    return said?.['counters'] as WhizbangCounters | undefined;
  }

  /** SIGKILL while it has rows leased. It is stopped first, so that what it holds can be looked at. */
  async kill(pool: pg.Pool, signal: AbortSignal): Promise<Killed> {
    const deadline = performance.now() + 10_000;
    while (performance.now() < deadline) {
      signal.throwIfAborted();
      this.#program.kill('SIGSTOP');
      await delay(50);
      const { rows } = await pool.query<{ message_id: string }>(
        'select message_id from shipping.wh_inbox where instance_id = $1 and lease_expiry > clock_timestamp()',
        [this.#instanceId],
      );
      // Some at first, one in the end: a quick machine empties its hands between two looks.
      if (rows.length >= (performance.now() < deadline - 7_000 ? 3 : 1)) {
        this.#program.kill('SIGKILL');
        await this.#program.exited;
        // The lock waits for commits that were under way at the server: what they settled was not left to the other one.
        const left = await pool.query<{ message_id: string }>(
          'select message_id from shipping.wh_inbox where message_id = any ($1) and instance_id = $2 for share',
          [rows.map((row) => row.message_id), this.#instanceId],
        );
        return { pid: this.#program.pid, held: left.rows.map((row) => row.message_id) };
      }
      this.#program.kill('SIGCONT');
      await delay(20);
    }
    throw new Error(`The second shipping process had nothing in hand for 10 s. It said:\n${this.#program.output}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#program[Symbol.asyncDispose]();
  }
}
