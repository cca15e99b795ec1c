import type { Logger } from '../contract/logger.js';
import { maskSecrets } from '../errors/mask-secrets.js';

/** Says a repeated failure once per change of its cause and then every tenth time, and once that it is over. */
export class FailureLog {
  readonly #logger: Logger;
  readonly #what: string;
  #cause: string | undefined;
  #count = 0;

  /** @param what Begins each sentence: `connecting to amqp://… failed: …`. */
  constructor(logger: Logger, what: string) {
    this.#logger = logger;
    this.#what = what;
  }

  failed(cause: string, fields: object = {}): void {
    this.#count = cause === this.#cause ? this.#count + 1 : 1;
    this.#cause = cause;
    if (this.#count > 1 && this.#count % 10 !== 0) return;
    const times = this.#count > 1 ? ` (${this.#count} times so far)` : '';
    this.#logger.warn({ ...fields, failures: this.#count }, maskSecrets(`${this.#what} failed: ${cause}${times}`));
  }

  succeeded(): void {
    if (this.#cause === undefined) return;
    this.#logger.info({}, `${this.#what} works again`);
    this.#cause = undefined;
    this.#count = 0;
  }
}
