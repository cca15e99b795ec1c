import { setTimeout as delay } from 'node:timers/promises';

import { type Program, runProgram } from '../../fixtures/index.js';
import type { TcpGate } from '../../fixtures/network/tcp-gate.js';
import { compiledProgram } from '../service-program.js';
import type { ParticipantCommand } from './participant-settings.js';

export type Role = 'producer' | 'publisher' | 'consumer';

interface ParticipantParts {
  readonly name: string;
  readonly role: Role;
  /** Its ways to the database, for statements and for LISTEN, and to the broker. */
  readonly gates: { readonly database: TcpGate; readonly listen: TcpGate; readonly broker?: TcpGate };
  /** False: what it holds in memory is the broker's, and must not die with it. */
  readonly mayDie: boolean;
  readonly program: 'faults/participant' | 'faults/order-producer';
  /** Of its next process. */
  readonly environment: () => NodeJS.ProcessEnv;
}

const startTimeoutMs = 60_000;
const restartPauseMs = 300;

/** A process that takes part, and is started again when it has ended, as whoever runs it would. */
export class Participant {
  readonly name: string;
  readonly role: Role;
  readonly gates: ParticipantParts['gates'];
  readonly mayDie: boolean;
  /** Ends that nobody asked for, after a start that had succeeded. */
  readonly unexpectedEnds: string[] = [];
  readonly programs: Program[] = [];
  readonly #parts: ParticipantParts;
  /** What its end is, when it ends. */
  #wanted: 'running' | 'ended' = 'ended';

  constructor(parts: ParticipantParts) {
    ({ name: this.name, role: this.role, gates: this.gates, mayDie: this.mayDie } = parts);
    this.#parts = parts;
  }

  launch(): void {
    this.#wanted = 'running';
    const program = runProgram(compiledProgram(this.#parts.program), this.#parts.environment());
    this.programs.push(program);
    void program.exited.then(async ({ code, signal }) => {
      if (this.#wanted === 'ended') return;
      // One that cannot start, because its database is away, ends and is tried again.
      if (program.messages.some(({ started }) => started === true)) {
        this.unexpectedEnds.push(`${this.name} ended with ${signal ?? code}: ${program.output.slice(-1_000)}`);
      }
      await delay(restartPauseMs);
      // Nobody has launched or ended it meanwhile.
      if (this.#wanted === 'running' && this.#program === program) this.launch();
    });
  }

  /** Resolves when its present process, or one that follows it, has started. */
  async started(): Promise<void> {
    const deadline = performance.now() + startTimeoutMs;
    while (!this.#program.messages.some(({ started }) => started === true)) {
      if (performance.now() > deadline)
        throw new Error(`${this.name} does not start: ${this.#program.output.slice(-2_000)}`);
      await delay(50);
    }
  }

  async kill(): Promise<void> {
    this.#wanted = 'ended';
    this.#program.kill('SIGKILL');
    await this.#program.exited;
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#program.kill(signal);
  }

  tell(command: ParticipantCommand): void {
    this.#program.tell(command);
  }

  get pid(): number {
    return this.#program.pid;
  }

  /** Asks it to stop, and says what was wrong with how it did. */
  async stop(patienceMs: number): Promise<string[]> {
    const program = this.#program;
    if (!program.messages.some(({ started }) => started === true)) {
      // Not up, so there is nothing to be orderly about.
      await this.kill();
      return [];
    }
    this.#wanted = 'ended';
    program.kill('SIGTERM');
    const late = new AbortController();
    const exit = await Promise.race([
      program.exited,
      delay(patienceMs, undefined, { signal: late.signal }).catch(() => undefined),
    ]);
    late.abort();
    const said = program.messages.find(({ stopped }) => stopped !== undefined);
    const how = said === undefined ? 'without having stopped' : `stop() took ${Number(said['ms']).toFixed(0)} ms`;
    if (exit === undefined) {
      program.kill('SIGKILL');
      await program.exited;
      return [`${this.name} did not end within ${patienceMs} ms of SIGTERM, ${how}: something is left that keeps it`];
    }
    if (exit.code !== 0)
      return [`${this.name} ended with ${exit.signal ?? exit.code}, ${how}: ${program.output.slice(-1_000)}`];
    if (Number(said?.['stopped']) > 0)
      return [`${this.name} left ${String(said?.['stopped'])} rows unfinished, ${how}`];
    return [];
  }

  /** How long its last stop() took, where it told. */
  get stopMs(): number {
    return Number(this.#program.messages.find(({ stopped }) => stopped !== undefined)?.['ms'] ?? 0);
  }

  get #program(): Program {
    const program = this.programs.at(-1);
    if (program === undefined) throw new Error(`${this.name} was never launched`);
    return program;
  }
}
