import type { OutgoingMessage } from '@whizbang/core/transport';
import type { ServicebusSettings } from './options.js';

const maxSessionIdLength = 128;

/** Decides in which session a message travels. */
export class SessionIds {
  readonly #settings: Pick<ServicebusSettings, 'sessions' | 'sharedSessions'>;
  #next = 0;

  constructor(settings: Pick<ServicebusSettings, 'sessions' | 'sharedSessions'>) {
    this.#settings = settings;
  }

  /**
   * The user's own stream key where it fits, so that other readers find it, else the stream's id. Messages without a stream
   * take turns in a few sessions that are there for them. Undefined where sessions are not used.
   */
  sessionOf({ streamId, attributes }: OutgoingMessage): string | undefined {
    const { sessions, sharedSessions } = this.#settings;
    if (!sessions) return undefined;
    if (streamId === null) {
      this.#next = (this.#next + 1) % sharedSessions;
      return `whizbang-shared-${this.#next}`;
    }
    const key = attributes['partitionkey'] ?? '';
    return key !== '' && key.length <= maxSessionIdLength && key.isWellFormed() ? key : streamId;
  }
}
