import type { Logger } from '../contract/logger.js';

/** The user's logger, unable to throw into the event handlers of a broker's client. */
export function guardedLogger(logger: Logger): Logger {
  const safely = (level: keyof Logger) => (fields: object, message: string) => {
    try {
      logger[level](fields, message);
    } catch {
      // There is nowhere left to say it.
    }
  };
  return { debug: safely('debug'), info: safely('info'), warn: safely('warn'), error: safely('error') };
}
