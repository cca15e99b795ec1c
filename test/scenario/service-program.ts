import { fileURLToPath } from 'node:url';

import type { WhizbangOptions } from '@whizbang/core';

import type { Program } from '../fixtures/index.js';
import { testProgram } from '../fixtures/test-services.js';

export interface ServiceSettings {
  /** As far as JSON can say them. */
  readonly options: Omit<WhizbangOptions, 'logger' | 'messages'>;
  /** Writes the ledger. Default: the service handles nothing. */
  readonly handler?: {
    /** Stays in hand for so long after it has written. */
    readonly delayMs?: number;
    /** Does not listen to its signal. */
    readonly deaf?: boolean;
    /** Says `{ handling }` for each message. */
    readonly announce?: boolean;
  };
}

export function compiledProgram(name: string): string {
  return fileURLToPath(new URL(`../dist/scenario/${name}.process.js`, import.meta.url));
}

/** Runs a service in a process of its own; ended with the test. */
export async function startService(settings: ServiceSettings, env: NodeJS.ProcessEnv = {}): Promise<Program> {
  const program = testProgram(compiledProgram('service'), { ...env, SERVICE: JSON.stringify(settings) });
  await program.waitForMessage(({ started }) => started === true, { message: 'start', timeoutMs: 30_000 });
  return program;
}
