import { FailureLog, type Logger } from '@whizbang/core/transport';
import { conditionOf, messageOf } from './errors.js';
import type { KafkaClient, Leaders } from './kafka-client.js';
import type { KafkaSettings } from './options.js';
import { ensureTopic } from './topology.js';

// Partitions may be added to a topic at any time; from then on keys belong to other ones.
const maxAgeMs = 60_000;
// A topic that was refused is not asked for again this long, so that refusals cost no round trips.
const refusalHoldsMs = 1000;

interface Entry {
  readonly leaders: Promise<Leaders>;
  readonly askedAt: number;
  refused: boolean;
}

/** What is known of the topics that are published to. */
export class TopicDirectory {
  readonly #settings: KafkaSettings;
  readonly #logger: Logger;
  readonly #signal: AbortSignal;
  readonly #entries = new Map<string, Entry>();
  readonly #logs = new Map<string, FailureLog>();

  constructor(settings: KafkaSettings, logger: Logger, signal: AbortSignal) {
    this.#settings = settings;
    this.#logger = logger;
    this.#signal = signal;
  }

  /** @param refresh Ask again, unless that was done just now. */
  leaders(client: KafkaClient, topic: string, refresh: boolean): Promise<Leaders> {
    const known = this.#entries.get(topic);
    if (known !== undefined) {
      const age = performance.now() - known.askedAt;
      if (age < (known.refused ? refusalHoldsMs : refresh ? 50 : maxAgeMs)) return known.leaders;
    }
    const entry: Entry = { leaders: this.#ask(client, topic, known), askedAt: performance.now(), refused: false };
    this.#entries.set(topic, entry);
    entry.leaders.catch((error: unknown) => {
      entry.refused = true;
      // A lost connection is no statement about the topic.
      if (conditionOf(error) === 'unreachable' || client.endedBy !== undefined) this.#entries.delete(topic);
    });
    return entry.leaders;
  }

  /** Another cluster may answer the next time. */
  forget(): void {
    this.#entries.clear();
  }

  async #ask(client: KafkaClient, topic: string, known: Entry | undefined): Promise<Leaders> {
    try {
      const leaders = await ensureTopic(client, topic, this.#settings, this.#signal);
      this.#log(topic).succeeded();
      return leaders;
    } catch (error) {
      // While one partition has no leader, Kafka's answer tells of none; the others still have theirs.
      if (known !== undefined && !known.refused && conditionOf(error) === 'noLeader') return known.leaders;
      if (client.endedBy === undefined) this.#log(topic).failed(messageOf(error));
      throw error;
    }
  }

  #log(topic: string): FailureLog {
    let log = this.#logs.get(topic);
    if (log === undefined) {
      log = new FailureLog(this.#logger, `using topic "${topic}"`);
      this.#logs.set(topic, log);
    }
    return log;
  }
}
