import type { Logger } from '../contract/logger.js';
import { explainDatabaseError } from '../database/database-error.js';

/** Says once that the database cannot be used, again when the cause changes, and once that it can. */
export class OutageLog {
  readonly #logger: Logger;
  readonly #sentence: string;
  #cause: string | undefined;

  constructor(logger: Logger, sentence: string) {
    this.#logger = logger;
    this.#sentence = sentence;
  }

  noticed(error: unknown): void {
    const cause = explainDatabaseError(error, '')?.message ?? String(error);
    if (cause !== this.#cause) {
      this.#cause = cause;
      this.#logger.warn({ error: cause }, `${this.#sentence}; it keeps trying`);
    }
  }

  over(): void {
    if (this.#cause !== undefined) {
      this.#cause = undefined;
      this.#logger.info({}, `${this.#sentence.replace('cannot use', 'can use')} again`);
    }
  }
}
