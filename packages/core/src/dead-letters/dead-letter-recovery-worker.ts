import type { DeadLetterEntry, DeadLetterRecoveryPolicy, RecoveryPolicy } from '../contract/dead-letter.js';
import type { Logger } from '../contract/logger.js';
import { failureReasonName } from '../contract/message-failure-reason.js';
import { failureText } from '../failure/failure-text.js';
import { dateAt, pause } from '../runtime/clock.js';
import type { DeadLetterMetrics } from '../telemetry/dead-letter-metrics.js';
import type { Sleeper } from '../wakeups/sleeper.js';
import type { DeadLetterStore } from './dead-letter-store.js';
import { type RecoveryDecision, decideRecovery } from './recovery-step.js';

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
   * @returns how many rows it looked at
   */
  async scan(): Promise<number> {
    const { store, policy, metrics, scanBatchSize, now } = this.#settings;
    const { entries, now: at } = await store.due(scanBatchSize, now?.());
    metrics.count('totalScans', 1);
    const done = new Set<string>();
    for (const entry of entries) {
      if (!done.has(entry.deadLetterId) && !this.#stop.signal.aborted) {
        for (const id of await this.#actOn(entry, policy, at)) {
          done.add(id);
        }
      }
    }
    return entries.length;
  }

  /**
   * Afterwards the dead letter is recovered, ended, or has a time: none is looked at again and again, or keeps others out of
   * the next look. Returns what was recovered.
   */
  async #actOn(entry: DeadLetterEntry, policies: DeadLetterRecoveryPolicy, at: Date): Promise<readonly string[]> {
    const { store, logger } = this.#settings;
    let decision: RecoveryDecision;
    try {
      decision = decideRecovery(entry, policies, at);
    } catch (error) {
      // A policy of the application's own. One dead letter that it cannot judge must not stop the others.
      logger.error(
        { messageId: entry.sourceId, error: failureText(error) },
        'The recovery policy failed; asked again later',
      );
      await store.schedule(entry.deadLetterId, this.#later(at));
      return [];
    }
    switch (decision.kind) {
      case 'recover':
        return this.#recover(entry, decision.policy, at);
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
        await store.schedule(entry.deadLetterId, this.#later(at, decision.until));
        break;
    }
    return [];
  }

  /** The next regular look, or later. */
  #later(at: Date, notBefore: Date = at): Date {
    return new Date(Math.max(at.getTime() + this.#settings.scanIntervalMinutes * 60_000, notBefore.getTime()));
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
    const companions = await this.#companions(entry, at);
    for (const one of companions) {
      metrics.recoveryAttempt(failureReasonName(one.failureReason));
    }
    let recovered: readonly string[] = [];
    try {
      recovered = await store.recover(companions.map((one) => one.deadLetterId));
      metrics.recovered(entry.sourceTable, recovered.length);
      if (recovered.length > 0) {
        logger.info(
          { messageId: entry.sourceId, reason, policy: policy.name, recovered: recovered.length },
          'Dead letters went back to work',
        );
      }
    } catch (error) {
      logger.warn(
        { messageId: entry.sourceId, reason, error: failureText(error) },
        'A dead letter could not be brought back',
      );
    }
    if (!recovered.includes(entry.deadLetterId)) {
      // It failed, or waits behind one of its stream that is held; when that one is retried, it comes along.
      await store.schedule(entry.deadLetterId, this.#later(at, dateAt(at.getTime() + policy.cooldownMs)));
    }
    return recovered;
  }

  /**
   * The dead letters to bring back with one: in a stream, all that may come, in their order, whenever their own time is.
   * What has spent its budget stays, and so does all that follows one that stays and holds its stream (policy `park`).
   */
  async #companions(entry: DeadLetterEntry, at: Date): Promise<readonly DeadLetterEntry[]> {
    const { store, policy: policies } = this.#settings;
    if (entry.streamId === null || policies.getStreamMode(entry) === 'PerMessage') {
      return [entry];
    }
    const companions: DeadLetterEntry[] = [];
    for (const sibling of await store.ofStream(entry.sourceTable, entry.streamId)) {
      const decision = decideRecovery(sibling, policies, at);
      if (decision.kind === 'recover' || decision.kind === 'wait') {
        companions.push(sibling);
      } else if (sibling.parksStream) {
        break;
      }
    }
    return companions;
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
