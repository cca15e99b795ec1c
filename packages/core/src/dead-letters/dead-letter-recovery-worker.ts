import type { DeadLetterEntry, DeadLetterRecoveryPolicy, RecoveryPolicy } from '../contract/dead-letter.js';
import type { Logger } from '../contract/logger.js';
import { failureReasonName } from '../contract/message-failure-reason.js';
import { pause } from '../runtime/clock.js';
import type { DeadLetterMetrics } from '../telemetry/dead-letter-metrics.js';
import type { Sleeper } from '../wakeups/sleeper.js';
import type { DeadLetterStore } from './dead-letter-store.js';
import { decideRecovery } from './recovery-step.js';

export interface RecoveryWorkerSettings {
  readonly store: DeadLetterStore;
  readonly policy: DeadLetterRecoveryPolicy;
  readonly metrics: DeadLetterMetrics;
  readonly logger: Logger;
  readonly generation: string;
  readonly scanIntervalMinutes: number;
  readonly scanBatchSize: number;
  readonly enableGenerationReplay: boolean;
  /** Whether this instance does the service's common work at the moment. */
  readonly elected: () => boolean;
  readonly sleeper: Sleeper;
  /** The time by which cooldowns and schedules are judged; tests set their own. Default: the database's. */
  readonly now?: () => Date;
}

/**
 * The policy engine of `wh_dead_letters`. On the elected instance, at start, whenever a dead letter arrives or becomes due,
 * and every `scanIntervalMinutes`, it looks at what is due and brings it back, holds it, or gives it up.
 */
export class DeadLetterRecoveryWorker {
  readonly #settings: RecoveryWorkerSettings;
  readonly #stop = new AbortController();
  #replayed = false;
  #running: Promise<void> | undefined;

  constructor(settings: RecoveryWorkerSettings) {
    this.#settings = settings;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** A dead letter has arrived, an operator asked for a scan, or this instance has been elected. */
  wake(): void {
    this.#settings.sleeper.ring();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#settings.sleeper.ring();
    await this.#running;
  }

  /**
   * Looks once at everything that is due. Dead letters that are not due yet get their time.
   *
   * @returns how many rows it did something about
   */
  async scan(): Promise<number> {
    const { store, policy, metrics, scanBatchSize, now } = this.#settings;
    const { entries, now: at } = await store.due(scanBatchSize, now?.());
    metrics.count('totalScans', 1);
    const done = new Set<string>();
    let acted = 0;
    for (const entry of entries) {
      if (done.has(entry.deadLetterId) || this.#stop.signal.aborted) {
        continue;
      }
      const decision = decideRecovery(entry, policy, at);
      acted += decision.kind === 'leave' ? 0 : 1;
      switch (decision.kind) {
        case 'recover':
          for (const id of await this.#recover(entry, decision.policy, at)) {
            done.add(id);
          }
          break;
        case 'hold':
          await this.#end(entry, decision.policy, 'held');
          break;
        case 'giveUp':
          await this.#end(entry, decision.policy, 'permanently_failed');
          break;
        case 'wait':
          await store.schedule(entry.deadLetterId, decision.until);
          break;
        case 'leave':
          break;
      }
    }
    return acted;
  }

  async #run(): Promise<void> {
    const { elected, logger, sleeper, store, scanIntervalMinutes } = this.#settings;
    while (!this.#stop.signal.aborted) {
      if (!elected()) {
        await sleeper.waitForRing(scanIntervalMinutes * 60_000);
        continue;
      }
      try {
        await this.#replayGeneration();
        if ((await this.scan()) > 0) {
          sleeper.foundWork();
        } else {
          await sleeper.sleep(await store.nextDueMs());
        }
      } catch (error) {
        logger.warn({ error: String(error) }, 'A look at the dead letters failed; it is repeated');
        await pause(5_000, this.#stop.signal);
      }
    }
    await sleeper.close();
  }

  async #replayGeneration(): Promise<void> {
    const { enableGenerationReplay, store, generation, metrics, logger } = this.#settings;
    if (this.#replayed || !enableGenerationReplay) {
      return;
    }
    const scheduled = await store.resetForGeneration(generation);
    this.#replayed = true;
    metrics.generationReplayScheduled(generation, scheduled);
    if (scheduled > 0) {
      logger.info({ generation, scheduled }, 'A new generation: its dead letters get one more try');
    }
  }

  async #recover(entry: DeadLetterEntry, policy: RecoveryPolicy, at: Date): Promise<readonly string[]> {
    const { store, metrics, logger } = this.#settings;
    const reason = failureReasonName(entry.failureReason);
    metrics.recoveryAttempt(reason);
    try {
      const recovered = await store.recover(await this.#companions(entry, at));
      metrics.recovered(entry.sourceTable, recovered.length);
      if (recovered.length > 0) {
        logger.info(
          { messageId: entry.sourceId, reason, policy: policy.name, recovered: recovered.length },
          'Dead letters went back to work',
        );
      }
      return recovered;
    } catch (error) {
      logger.warn(
        { messageId: entry.sourceId, reason, error: String(error) },
        'A dead letter could not be brought back',
      );
      await store.schedule(entry.deadLetterId, new Date(at.getTime() + Math.max(policy.cooldownMs, 60_000)));
      return [];
    }
  }

  /**
   * The dead letters to bring back with one: in a stream, all that may come, in their order, whenever their own time is.
   * What has spent its budget stays, and so does all that follows one that stays and holds its stream (policy `park`).
   */
  async #companions(entry: DeadLetterEntry, at: Date): Promise<readonly string[]> {
    const { store, policy: policies } = this.#settings;
    if (entry.streamId === null || policies.getStreamMode(entry) === 'PerMessage') {
      return [entry.deadLetterId];
    }
    const ids: string[] = [];
    for (const sibling of await store.ofStream(entry.sourceTable, entry.streamId)) {
      const decision = decideRecovery(sibling, policies, at);
      if (decision.kind === 'recover' || decision.kind === 'wait') {
        ids.push(sibling.deadLetterId);
      } else if (sibling.parksStream) {
        break;
      }
    }
    return ids;
  }

  async #end(entry: DeadLetterEntry, policy: RecoveryPolicy, end: 'held' | 'permanently_failed'): Promise<void> {
    const { store, metrics, logger } = this.#settings;
    const reason = failureReasonName(entry.failureReason);
    const changed = end === 'held' ? await store.hold(entry.deadLetterId) : await store.giveUp(entry.deadLetterId);
    if (changed) {
      metrics.ended(end, policy.name, reason);
      logger.warn(
        { messageId: entry.sourceId, messageType: entry.messageType, reason, policy: policy.name },
        end === 'held' ? 'A dead letter is held for review' : 'A dead letter is given up',
      );
    }
  }
}
