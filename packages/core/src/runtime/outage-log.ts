import type { Logger } from '../contract/logger.js';

/** Says once that something is away, again when the cause changes, and once that it is back. */
export class OutageLog {
  readonly #logger: Logger;
  readonly #sentence: string;
  #cause: string | undefined;

  constructor(logger: Logger, sentence: string) {
    this.#logger = logger;
    this.#sentence = sentence;
  }

  noticed(cause: string): void {
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
