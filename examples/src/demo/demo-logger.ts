import type { Logger } from '@whizbang/core';

export interface DemoLogger extends Logger {
  /** The last warning, for the sentence with which a demo that cannot run ends. */
  readonly lastWarning: string | undefined;
}

/** Prints warnings and errors. Whizbang takes any pino-shaped logger; this one keeps the demo's output short. */
export function demoLogger(who: string, print: (line: string) => void): DemoLogger {
  let lastWarning: string | undefined;
  const say = (fields: object, message: string) => {
    const { error } = fields as { error?: unknown };
    lastWarning = typeof error === 'string' ? `${message}: ${error}` : message;
    print(`  (${who}) ${lastWarning}`);
  };
  return {
    debug: () => undefined,
    info: () => undefined,
    warn: say,
    error: say,
    get lastWarning() {
      return lastWarning;
    },
  };
}
