import type { Logger } from '../contract/logger.js';
import type { TransportContext } from '../contract/transport.js';

/** What has been told of a transport's readiness: each change once. */
export class Readiness {
  readonly #context: Pick<TransportContext, 'onReadyChange'>;
  readonly #logger: Logger;
  #told = false;

  constructor(context: Pick<TransportContext, 'onReadyChange'>, logger: Logger) {
    this.#context = context;
    this.#logger = logger;
  }

  /** As told last; false in the beginning. */
  get told(): boolean {
    return this.#told;
  }

  tell(ready: boolean, cause?: Error): void {
    if (ready === this.#told) return;
    this.#told = ready;
    try {
      this.#context.onReadyChange(ready, cause);
    } catch (error) {
      // It is called from event handlers of a broker's client, where a throw may close the connection.
      this.#logger.error({ error }, 'onReadyChange threw');
    }
  }
}
