import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import { MessageFailureReason, failureReasonName } from '../contract/message-failure-reason.js';
import type { ClaimResult, Settlements } from '../contract/work.js';
import type { Breakers } from '../failure/breakers.js';
import { type FailureJudge, concernsOthers } from '../failure/failure-judge.js';
import { PermanentError, RetryLater } from '../failure/handler-errors.js';
import type { InboxStore } from '../inbox/inbox-store.js';
import { after, monotonicMs, settlesWithin } from '../runtime/clock.js';
import type { InstanceIdentity } from '../runtime/instance-identity.js';
import { type HeldMessage, Lanes, type Unit } from '../runtime/lanes.js';
import { LeaseKeeper } from '../runtime/lease-keeper.js';
import { OutageLog } from '../runtime/outage-log.js';
import { StoppedStreams } from '../runtime/stopped-streams.js';
import { type Claim, WorkExchange } from '../runtime/work-exchange.js';
import type { Instruments } from '../telemetry/instruments.js';
import type { Sleeper } from '../wakeups/sleeper.js';
import { LeaseEnding, type PublishInTransaction, type UnitOutcome, handleUnit } from './handle-unit.js';
import type { HandlerRegistry } from './handler-registry.js';

export interface DispatcherSettings {
  readonly pool: pg.Pool;
  readonly store: InboxStore;
  readonly handlers: HandlerRegistry;
  readonly identity: InstanceIdentity;
  readonly sleeper: Sleeper;
  readonly instruments: Instruments;
  readonly logger: Logger;
  readonly publish: PublishInTransaction;
  readonly leaseSeconds: number;
  readonly maxLeaseRenewals: number;
  readonly concurrency: number;
  readonly batchSize: number;
  readonly batchBytes: number;
  readonly retainCompleted: boolean;
  readonly judge: FailureJudge;
  readonly breakers: Breakers;
  readonly onDeadLetter: (messageIds: readonly string[]) => void;
}

// Rows of one stream in hand: enough that its handler never waits for a claim, few enough to leave room for other streams.
// `unblock_inbox_streams` brings back as many.
const rowsPerLane = 64;
const outagePauseMs = 500;
// A message that kills its process does so soon. One that hangs, or a long handler beside it, must not stop all the others.
const trialPatienceMs = 10_000;

interface RunningUnit {
  readonly unit: Unit;
  readonly abort: AbortController;
  readonly ended: Promise<void>;
}

/**
 * Handles the inbox: claims ahead into lanes, one per stream, and runs handlers, so many at a time, each in its own
 * transaction. When one fails, its stream stops: what is in hand behind it is released, untried.
 */
export class Dispatcher {
  readonly #settings: DispatcherSettings;
  readonly #intake = new AbortController();
  readonly #lanes = new Lanes();
  readonly #work: WorkExchange;
  readonly #leases: LeaseKeeper;
  readonly #databaseOutage: OutageLog;
  readonly #running = new Map<Unit, RunningUnit>();
  readonly #stopping: StoppedStreams;
  readonly #maxPerLane: number;
  // A suspect that waits to be tried, and until when everything else stands back for it, before its try and during it.
  #trial: HeldMessage | undefined;
  #trialUntil: number | undefined;
  #pausedUntil = 0;
  #loop: Promise<void> | undefined;

  constructor(settings: DispatcherSettings) {
    this.#settings = settings;
    this.#maxPerLane = Math.max(rowsPerLane, settings.handlers.maxBatch * 4);
    this.#leases = new LeaseKeeper(
      settings.leaseSeconds,
      settings.logger,
      (holder, tries) => settings.store.renew(holder, tries, settings.leaseSeconds),
      { maxRenewals: settings.maxLeaseRenewals, onEnding: (messageId) => this.#abortUnitOf(messageId) },
    );
    this.#databaseOutage = new OutageLog(settings.logger, 'The dispatcher cannot use the database');
    this.#work = new WorkExchange({
      exchange: (holder, settlements, claim) =>
        settings.store.exchange(holder, settlements, settings.judge.settings, claim),
      identity: settings.identity,
      breakers: settings.breakers,
      breakerKey: ({ messageType }) => messageType,
      maxBytes: settings.batchBytes,
      leaseSeconds: settings.leaseSeconds,
      outage: this.#databaseOutage,
      sleep: (dueMs) => settings.sleeper.sleep(dueMs),
      signal: this.#intake.signal,
      onSettled: (settlements, result) => this.#settled(settlements, result),
    });
    this.#stopping = new StoppedStreams(settings.judge, this.#work.owed);
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Messages were stored in this process. */
  wake(): void {
    this.#settings.sleeper.ring();
  }

  /**
   * Stops claiming, releases what was not begun, lets running handlers finish until the deadline, then aborts them and
   * gives them two seconds more.
   *
   * @returns rows that could not be settled; their leases run out by themselves
   */
  async stop(deadlineMs: number): Promise<number> {
    this.#intake.abort();
    this.#settings.sleeper.ring();
    this.#release(this.#lanes.clear());
    const handlers = Promise.all([...this.#running.values()].map((running) => running.ended));
    if (!(await settlesWithin(handlers, deadlineMs))) {
      for (const { abort } of this.#running.values()) {
        abort.abort(new Error('the service is stopping'));
      }
      await settlesWithin(handlers, 2_000);
    }
    const stuck = [...this.#running.keys()].flatMap((unit) => unit.rows);
    // A handler that ignores its signal keeps its rows: they must not run elsewhere while it still does.
    if (stuck.length === 0) {
      await settlesWithin(this.#loop ?? Promise.resolve(), 3_000);
    }
    this.#leases.stop();
    return stuck.length + this.#work.owed.size;
  }

  async #run(): Promise<void> {
    const { sleeper, batchSize } = this.#settings;
    while (!this.#intake.signal.aborted) {
      if (this.#trialUntil !== undefined) {
        await this.#holdTrial(this.#trialUntil);
        continue;
      }
      const room = batchSize - this.#lanes.waiting;
      if (this.#lanes.waiting > 0 && room < batchSize / 2 && this.#work.owed.size === 0) {
        // Else nobody would, after an outage in which the last handler that was at work ended.
        this.#start();
        await sleeper.waitForRing(1_000);
        continue;
      }
      const look = await this.#claim(Math.max(room, 0));
      this.#start();
      if (look.rows.length > 0) {
        sleeper.foundWork();
      } else {
        await this.#work.rest(look);
      }
    }
    await this.#finish();
  }

  /**
   * Tries a suspect with nothing else in hand: what its death would take along is itself. Nothing is claimed meanwhile, for as
   * long as patience lasts.
   */
  async #holdTrial(until: number): Promise<void> {
    this.#start();
    const leftMs = until - monotonicMs();
    if ((this.#running.size > 0 || this.#lanes.waiting > 0) && leftMs > 0) {
      await this.#settings.sleeper.waitForRing(Math.min(leftMs, 1_000));
      return;
    }
    const row = this.#trial;
    if (row === undefined) {
      this.#trialUntil = undefined;
      return;
    }
    if (this.#stopping.has(row)) {
      // What stands before it was in hand, and has failed meanwhile.
      this.#trial = undefined;
      this.#release([row]);
      return;
    }
    // What it may take along must not be what others have done.
    await this.#settle();
    this.#trial = undefined;
    this.#trialUntil = this.#patience();
    this.#lanes.add([row]);
    this.#start();
  }

  // Well below a lease: when that of a hanging suspect runs out, others must have had their turn before it is claimed again.
  #patience(): number {
    return monotonicMs() + Math.min(trialPatienceMs, this.#settings.leaseSeconds * 250);
  }

  /** Settles what is owed and claims up to `limit` rows into the lanes. */
  async #claim(limit: number): Promise<Claim> {
    const claim = await this.#stopping.during(() => this.#work.run(limit));
    this.#leases.hold(claim.holder, claim.rows, claim.sentAtMs);
    this.#accept(claim.rows.map((row) => ({ ...row, holder: claim.holder })));
    return claim;
  }

  #accept(rows: readonly HeldMessage[]): void {
    if (this.#intake.signal.aborted) {
      this.#release(rows);
      return;
    }
    const tried = this.#stopping.toTry(rows);
    if (tried[0]?.suspect === true) {
      // A claim brings a suspect alone.
      [this.#trial] = tried;
      this.#trialUntil = this.#patience();
      return;
    }
    const surplus = this.#lanes.add(tried, this.#maxPerLane);
    for (const row of surplus) {
      this.#work.owed.add(row.holder, { deferred: [row] });
    }
  }

  /** Starts handlers as far as concurrency allows. */
  #start(): void {
    const { concurrency, handlers } = this.#settings;
    const wait = this.#pausedUntil - monotonicMs();
    if (wait > 0) {
      return;
    }
    while (this.#running.size < concurrency && !this.#intake.signal.aborted) {
      const unit = this.#lanes.take((messageType) => handlers.get(messageType)?.maxBatch ?? 1);
      if (unit === undefined) {
        return;
      }
      if (!this.#holds(unit)) {
        // This process stood still, or could not renew: another may have handled them, and what its handlers do outside of
        // their transaction must not be done late.
        this.#release([...unit.rows, ...this.#stopUnit(unit)]);
        continue;
      }
      const abort = new AbortController();
      this.#running.set(unit, { unit, abort, ended: this.#handle(unit, abort.signal) });
    }
  }

  #holds(unit: Unit): boolean {
    return unit.rows.every((row) => this.#leases.holds(row));
  }

  async #handle(unit: Unit, signal: AbortSignal): Promise<void> {
    const { pool, store, handlers, publish, retainCompleted, instruments, leaseSeconds, maxLeaseRenewals } =
      this.#settings;
    const longestMs = leaseSeconds * 1000 * (maxLeaseRenewals + 1);
    const handler = handlers.get(unit.messageType);
    const begun = monotonicMs();
    const outcome: UnitOutcome =
      handler === undefined
        ? {
            kind: 'failed',
            error: new PermanentError(`no handler for '${unit.messageType}'`),
            reason: MessageFailureReason.ValidationError,
            retryable: false,
          }
        : await handleUnit(
            unit,
            handler,
            { pool, store, retainCompleted, longestMs, publish, holds: (each) => this.#holds(each) },
            signal,
          );
    instruments.handleDuration.record(monotonicMs() - begun, { message_type: unit.messageType, outcome: outcome.kind });
    this.#conclude(unit, outcome, signal);
    this.#running.delete(unit);
    this.#start();
    if (this.#work.owed.size > 0 || this.#lanes.waiting < this.#settings.batchSize / 2) {
      this.#settings.sleeper.ring();
    }
  }

  #conclude(unit: Unit, outcome: UnitOutcome, signal: AbortSignal): void {
    const { instruments, logger } = this.#settings;
    switch (outcome.kind) {
      case 'handled':
        this.#leases.drop(unit.rows);
        this.#lanes.done(unit);
        this.#settings.breakers.succeeded(unit.messageType);
        instruments.add('handled', unit.rows.length, { message_type: unit.messageType });
        return;
      case 'lost':
        this.#release([...unit.rows, ...this.#stopUnit(unit)]);
        instruments.add('stale', unit.rows.length, { category: 'inbox' });
        logger.warn(
          { messageType: unit.messageType },
          'The lease of a message had run out before its handler could commit; nothing of it was committed',
        );
        return;
      case 'outage':
        this.#databaseOutage.noticed(outcome.error);
        // Every handler would meet the same; the claims in between find out when it is over.
        this.#pausedUntil = monotonicMs() + outagePauseMs;
        after(outagePauseMs, () => this.#settings.sleeper.ring());
        this.#release([...unit.rows, ...this.#stopUnit(unit)]);
        return;
      case 'failed':
        if (this.#intake.signal.aborted && signal.aborted) {
          this.#release([...unit.rows, ...this.#stopUnit(unit)]);
        } else if (unit.rows.length > 1) {
          this.#lanes.separate(unit);
        } else {
          this.#fail(unit, outcome);
        }
    }
  }

  #fail(unit: Unit, outcome: UnitOutcome & { kind: 'failed' }): void {
    const { instruments, logger, judge, breakers } = this.#settings;
    for (const row of unit.rows) {
      const failure = judge.failed(row, outcome.error, outcome.reason, outcome.retryable);
      const reason = failureReasonName(failure.reason);
      this.#work.owed.add(row.holder, { failed: [failure] });
      // A handler that asks for another time has not failed.
      if (concernsOthers(failure.reason) && failure.permanent !== true && !(outcome.error instanceof RetryLater)) {
        breakers.failed(row.messageType, failure.reason, failure);
      }
      instruments.add('handleFailed', 1, { message_type: row.messageType, reason });
      logger.warn(
        { messageId: row.messageId, messageType: row.messageType, attempt: row.attempts, reason, error: failure.error },
        'A handler failed',
      );
    }
    if (judge.policyOf(unit.messageType) === 'continue') {
      this.#lanes.done(unit);
    } else {
      this.#release(this.#stopUnit(unit));
    }
  }

  /** Ends the lanes of a unit and keeps rows of their streams out until the database knows. Returns the rows behind it. */
  #stopUnit(unit: Unit): HeldMessage[] {
    for (const row of unit.rows) {
      if (row.streamId !== null) {
        this.#stopping.add(row.streamId);
      }
    }
    return this.#lanes.stop(unit);
  }

  #release(rows: readonly HeldMessage[]): void {
    for (const row of rows) {
      this.#work.owed.add(row.holder, { released: [row] });
    }
  }

  #settled({ failed, released, deferred = [] }: Settlements, { staleIds, deadIds }: ClaimResult): void {
    this.#leases.drop([...failed, ...released, ...deferred]);
    if (deadIds.length > 0) {
      this.#settings.onDeadLetter(deadIds);
    }
    if (staleIds.length > 0) {
      this.#settings.instruments.add('stale', staleIds.length, { category: 'inbox' });
      this.#settings.logger.debug({ count: staleIds.length }, 'Rows were put down after their lease had run out');
    }
  }

  #abortUnitOf(messageId: string): void {
    for (const { unit, abort } of this.#running.values()) {
      if (unit.rows.some((row) => row.messageId === messageId)) {
        abort.abort(new LeaseEnding('the lease of this message is about to end'));
      }
    }
  }

  async #finish(): Promise<void> {
    this.#release([...this.#lanes.clear(), ...(this.#trial === undefined ? [] : [this.#trial])]);
    // At once: what was not begun must not wait for a handler that ignores its signal.
    await this.#settle();
    await Promise.all([...this.#running.values()].map((running) => running.ended));
    await this.#settle();
    await this.#settings.sleeper.close();
  }

  async #settle(): Promise<void> {
    if (this.#work.owed.size > 0) {
      await this.#claim(0);
    }
  }
}
