import { withKafkaAdmin } from '@whizbang/test/fixtures';

import type { CountingWitness } from './drain-run.js';

/** Counts what a topic holds, by the offsets of its partitions. */
export class KafkaWitness implements CountingWitness {
  readonly #url: string;
  readonly #topic: string;
  #before = 0;

  constructor(url: string, topic: string) {
    this.#url = url;
    this.#topic = topic;
  }

  /** From here on it counts anew. */
  async purge(): Promise<void> {
    this.#before = await this.#end();
  }

  async count(): Promise<number> {
    return (await this.#end()) - this.#before;
  }

  #end(): Promise<number> {
    return withKafkaAdmin(this.#url, async (admin) => {
      const offsets = await admin.fetchTopicOffsets(this.#topic);
      return offsets.reduce((sum, { high }) => sum + Number(high), 0);
    });
  }
}
