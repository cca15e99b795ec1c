import type { WhizbangOptions } from '@whizbang/core';

/** What a participant's process is told to be, in its environment. */
export interface ParticipantSettings {
  /** Usually one; on the in-process transport all that share a broker. */
  readonly services: readonly {
    /** As far as JSON can say them. */
    readonly options: Omit<WhizbangOptions, 'logger' | 'messages'> & { readonly database: string };
    readonly handles: boolean;
    /** Give it a pool of its user's with so many connections, instead of the URL. */
    readonly userPool?: number;
  }[];
  /** Where it writes each try of a handler before it begins, and what its in-process broker takes: a line of JSON each. */
  readonly diary: string;
}

/** A line of the diary. `at` is on the clock that all processes of this machine share, in milliseconds. */
export type DiaryLine = { readonly at: number } & (
  | { readonly begins: string; readonly attempt: number }
  | { readonly throws: string; readonly attempt: number; readonly hopeless: boolean }
  | { readonly taken: string; readonly body: string }
);

/** What a participant is told while it runs. */
export type ParticipantCommand =
  | { readonly clock: number }
  /** Take all connections of the user's pool for so long. */
  | { readonly exhaustMs: number }
  | { readonly broker: 'away' | 'back' | 'blocked' | 'unblocked' }
  | { readonly failNext: number; readonly stored: boolean }
  | { readonly report: true };

export interface ProducerSettings {
  readonly database: string;
  readonly seed: number;
  readonly pauseMs: number;
}
