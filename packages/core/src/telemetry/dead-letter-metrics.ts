import { type Counter, metrics } from '@opentelemetry/api';
import { libraryVersion } from '../options/library-version.js';

/** What the recovery worker of this process has done; for health pages and tests. */
export interface DeadLetterCounters {
  totalScans: number;
  totalRecovered: number;
  totalHeld: number;
  totalPermanentlyFailed: number;
  totalGenerationReplays: number;
}

/** The metrics `whizbang.dead_letters.*`. */
export class DeadLetterMetrics {
  readonly counters: DeadLetterCounters = {
    totalScans: 0,
    totalRecovered: 0,
    totalHeld: 0,
    totalPermanentlyFailed: 0,
    totalGenerationReplays: 0,
  };
  readonly #added: Counter;
  readonly #recovered: Counter;
  readonly #held: Counter;
  readonly #permanentlyFailed: Counter;
  readonly #recoveryAttempts: Counter;
  readonly #generationReplays: Counter;

  constructor() {
    const meter = metrics.getMeter('Whizbang.DeadLetters', libraryVersion);
    const counter = (name: string, description: string) =>
      meter.createCounter(`whizbang.dead_letters.${name}`, { description });
    this.#added = counter('added', 'Messages moved to the dead letters');
    this.#recovered = counter('recovered', 'Dead letters brought back');
    this.#held = counter('held', 'Dead letters held for review');
    this.#permanentlyFailed = counter('permanently_failed', 'Dead letters given up');
    this.#recoveryAttempts = counter('recovery_attempts', 'Tries to bring a dead letter back');
    this.#generationReplays = counter('generation_replay_scheduled', 'Dead letters that a new generation tries again');
  }

  count(name: keyof DeadLetterCounters, amount: number): void {
    this.counters[name] += amount;
  }

  added(sourceTable: string, amount: number): void {
    this.#added.add(amount, { source_table: sourceTable });
  }

  recoveryAttempt(reason: string): void {
    this.#recoveryAttempts.add(1, { reason });
  }

  recovered(sourceTable: string, amount: number): void {
    if (amount > 0) {
      this.counters.totalRecovered += amount;
      this.#recovered.add(amount, { source_table: sourceTable });
    }
  }

  ended(end: 'held' | 'permanently_failed', policyName: string, reason: string): void {
    if (end === 'held') {
      this.counters.totalHeld += 1;
      this.#held.add(1, { policy_name: policyName, reason });
    } else {
      this.counters.totalPermanentlyFailed += 1;
      this.#permanentlyFailed.add(1, { policy_name: policyName, reason });
    }
  }

  generationReplayScheduled(generation: string, amount: number): void {
    if (amount > 0) {
      this.counters.totalGenerationReplays += amount;
      this.#generationReplays.add(amount, { generation });
    }
  }
}
