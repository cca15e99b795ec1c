import type { Logger } from '../contract/logger.js';

/** The application's logger, with what it throws dropped: a log line that fails must not end a worker, or the process. */
export function carefulLogger(logger: Logger): Logger {
  const careful = (level: keyof Logger) => (fields: object, message: string) => {
    try {
      logger[level](fields, message);
    } catch {
      // There is nowhere to say it.
    }
  };
  return { debug: careful('debug'), info: careful('info'), warn: careful('warn'), error: careful('error') };
}
