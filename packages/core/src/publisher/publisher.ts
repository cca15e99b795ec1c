import { setImmediate as immediate } from 'node:timers/promises';
import type { Logger } from '../contract/logger.js';
import { MessageFailureReason, failureReasonName } from '../contract/message-failure-reason.js';
import type { PublishOutcome, Transport } from '../contract/transport.js';
import type { ClaimResult, ClaimedMessage, FailedTry, Settlements } from '../contract/work.js';
import type { Breakers } from '../failure/breakers.js';
import { type FailureJudge, concernsOthers } from '../failure/failure-judge.js';
import type { OutboxStore } from '../outbox/outbox-store.js';
import { after, monotonicMs, settlesWithin } from '../runtime/clock.js';
import type { InstanceIdentity } from '../runtime/instance-identity.js';
import type { HeldMessage } from '../runtime/lanes.js';
import { LeaseKeeper } from '../runtime/lease-keeper.js';
import { OutageLog } from '../runtime/outage-log.js';
import { StoppedStreams } from '../runtime/stopped-streams.js';
import { type Claim, WorkExchange } from '../runtime/work-exchange.js';
import type { Instruments } from '../telemetry/instruments.js';
import type { Sleeper } from '../wakeups/sleeper.js';
import { type BatchOutcome, publishBatch, tryOf } from './publish-batch.js';
import { RowsInHand } from './rows-in-hand.js';
import { untilReceived } from './until-received.js';

export interface PublisherSettings {
  readonly service: string;
  readonly store: OutboxStore;
  readonly transport: Transport;
  readonly identity: InstanceIdentity;
  readonly sleeper: Sleeper;
  readonly instruments: Instruments;
  readonly logger: Logger;
  readonly leaseSeconds: number;
  readonly batchSize: number;
  readonly batchBytes: number;
  readonly retainCompleted: boolean;
  readonly judge: FailureJudge;
  readonly breakers: Breakers;
  readonly onDeadLetter: (messageIds: readonly string[]) => void;
}

// While a batch waits for its confirms, the next is sent: at the broker the time goes into waiting, not into work.
const batchesUnderWay = 2;
// A batch that takes longer than this must not keep waiting what has come after it.
const lookAgainMs = 250;
// Claims that bring few rows come no faster than this: each costs the database about as much as ten rows do, whose producers
// have the better use for it. What comes more rarely does not wait.
const paceMs = 5;
// After a batch of which the broker took nothing.
const pauseMs = 50;

/**
 * Publishes the outbox: claim, hand to the transport, settle. While batches are in the broker's hands, what was before them is
 * settled and what comes after them claimed, in one round trip.
 */
export class Publisher {
  readonly #settings: PublisherSettings;
  readonly #intake = new AbortController();
  /** Ends what is being sent: the time of `stop()` is up, or leases have run out. */
  #sending = new AbortController();
  readonly #leases: LeaseKeeper;
  readonly #work: WorkExchange;
  readonly #hand = new RowsInHand();
  readonly #underWay = new Set<Promise<void>>();
  readonly #stopping: StoppedStreams;
  // There is more to claim, or may be.
  #more = false;
  #trial = false;
  #pausedUntil = 0;
  #claimsFrom = 0;
  #running: Promise<void> | undefined;

  constructor(settings: PublisherSettings) {
    this.#settings = settings;
    this.#leases = new LeaseKeeper(
      settings.leaseSeconds,
      settings.logger,
      (holder, tries) => settings.store.renew(holder, tries, settings.leaseSeconds),
      { maxRenewals: Infinity, onEnding: () => this.#stopSending() },
    );
    this.#work = new WorkExchange({
      exchange: (holder, settlements, claim) =>
        settings.store.exchange(holder, settlements, settings.judge.settings, settings.retainCompleted, claim),
      identity: settings.identity,
      breakers: settings.breakers,
      breakerKey: ({ destination }) => destination,
      maxBytes: settings.batchBytes,
      leaseSeconds: settings.leaseSeconds,
      outage: new OutageLog(settings.logger, 'The publisher cannot use the database'),
      sleep: (dueMs) => settings.sleeper.sleep(dueMs),
      signal: this.#intake.signal,
      onSettled: (settlements, result) => this.#settled(settlements, result),
    });
    this.#stopping = new StoppedStreams(settings.judge, this.#work.owed);
  }

  /** @param received - resolves when the broker knows what this service receives. left out: it receives nothing */
  start(received?: Promise<void>): void {
    this.#running ??= this.#run(received);
  }

  /** The transport's readiness has changed. */
  wake(): void {
    this.#settings.sleeper.ring();
  }

  /**
   * Stops claiming, lets the batch in hand be confirmed until the deadline, settles everything and releases the rest.
   *
   * @returns rows that could not be settled; their leases run out by themselves
   */
  async stop(deadlineMs: number): Promise<number> {
    const softStop = after(deadlineMs, () => this.#sending.abort());
    this.#intake.abort();
    this.#settings.sleeper.ring();
    // The transport answers within its confirm timeout; what is later than that is not waited for.
    const ended = await settlesWithin(this.#running ?? Promise.resolve(), deadlineMs + 2_000);
    softStop.cancel();
    this.#leases.stop();
    return ended ? this.#work.owed.size : this.#leases.held;
  }

  /** Leases run out when the process stands still, so that few are left of any batch. */
  #stopSending(): void {
    this.#sending.abort();
    this.#sending = new AbortController();
  }

  async #run(received: Promise<void> | undefined): Promise<void> {
    if (received !== undefined) {
      const { transport, sleeper, logger } = this.#settings;
      await untilReceived(received, { transport, sleeper, logger, signal: this.#intake.signal });
    }
    while (!this.#intake.signal.aborted) {
      if (!this.#settings.transport.ready()) {
        await this.#waitForTransport();
        continue;
      }
      await this.#launchSuspect();
      const claiming = this.#mayClaim() ? this.#claim() : undefined;
      if (claiming !== undefined && this.#hand.size > 0) {
        // The request goes out first: the database works while this process encodes and sends.
        await immediate();
      }
      this.#launch();
      if (claiming !== undefined) {
        const next = await claiming;
        const idle = this.#hand.size === 0 && this.#underWay.size === 0 && this.#work.owed.size === 0;
        if (idle && next.rows.length === 0) {
          await this.#work.rest(next);
        }
      } else if (!(await this.#settings.sleeper.waitForRing(this.#patienceMs()))) {
        this.#more = true;
      }
    }
    await this.#finish();
  }

  /**
   * Claiming ahead pays when there is more; otherwise the settlement waits for its batch and takes the claim along. A suspect is
   * tried with nothing else in hand.
   */
  #mayClaim(): boolean {
    if (this.#trial || this.#hand.hasSuspect || this.#claimsFrom > monotonicMs()) {
      return false;
    }
    const idle = this.#hand.size === 0 && this.#underWay.size === 0;
    return idle || this.#work.owed.size > 0 || (this.#more && this.#hasRoom());
  }

  /** For a batch in hand beside the one that goes out next. */
  #hasRoom(): boolean {
    return this.#hand.size <= this.#settings.batchSize;
  }

  #patienceMs(): number {
    const now = monotonicMs();
    const soonerMs = [this.#pausedUntil - now, this.#claimsFrom - now].filter((leftMs) => leftMs > 0);
    return Math.min(lookAgainMs, ...soonerMs);
  }

  /** Hands batches to the transport, as many as may be under way. */
  #launch(): void {
    const { transport, batchSize } = this.#settings;
    const may = !this.#intake.signal.aborted && transport.ready() && this.#pausedUntil <= monotonicMs();
    while (may && this.#underWay.size < batchesUnderWay) {
      const batch = this.#hand.take(batchSize);
      if (batch.length === 0) {
        return;
      }
      this.#begin(batch);
    }
  }

  async #launchSuspect(): Promise<void> {
    if (this.#underWay.size > 0 || !this.#hand.hasSuspect) {
      return;
    }
    // What it may take along must not be what others have done.
    await this.#settle();
    const suspect = this.#hand.takeSuspect();
    if (suspect.length > 0) {
      this.#trial = true;
      this.#begin(suspect);
    }
  }

  #begin(batch: readonly HeldMessage[]): void {
    const published = this.#publish(batch).then((outcome) => {
      this.#underWay.delete(published);
      this.#ended(batch, outcome);
    });
    this.#underWay.add(published);
  }

  #ended(batch: readonly HeldMessage[], { settlements, stoppedStreams }: BatchOutcome): void {
    this.#trial = false;
    this.#hand.ended(batch);
    this.#work.owed.add(batch[0]?.holder ?? '', settlements);
    for (const streamId of stoppedStreams) {
      this.#stopping.add(streamId);
    }
    this.#release(this.#hand.stop(stoppedStreams));
    if (settlements.completed.length === 0 && settlements.failed.length === 0) {
      // Nothing moved: the broker takes nothing at the moment, and asking it again at once would not help.
      this.#pausedUntil = monotonicMs() + pauseMs;
    }
    this.#launch();
    this.#settings.sleeper.ring();
  }

  async #publish(batch: readonly HeldMessage[]): Promise<BatchOutcome> {
    const { transport, service, instruments, logger } = this.#settings;
    const begun = monotonicMs();
    const outcome = await publishBatch(
      batch,
      transport,
      service,
      this.#sending.signal,
      (row, failure, outage) => this.#judge(row, failure, outage),
      (row) => this.#leases.holds(row),
    );
    for (const destination of new Set(outcome.published.map((row) => row.destination))) {
      this.#settings.breakers.succeeded(destination);
    }
    instruments.publishDuration.record(monotonicMs() - begun, { transport: transport.name });
    instruments.addByType('published', outcome.published);
    for (const failure of outcome.settlements.failed) {
      instruments.add('publishFailed', 1, { reason: failureReasonName(failure.reason) });
      logger.warn(
        {
          messageId: failure.messageId,
          attempt: failure.attempts,
          reason: failureReasonName(failure.reason),
          error: failure.error,
        },
        'A message could not be published',
      );
    }
    return outcome;
  }

  /** What a failure is to the message: a recorded try, or none of its own. */
  #judge(row: ClaimedMessage, failure: PublishOutcome & { kind: 'failed' }, outage: boolean): FailedTry | undefined {
    const { judge, breakers } = this.#settings;
    const { reason, retryable, error, retryAfterMs } = failure;
    if (outage && retryable) {
      return undefined;
    }
    if (reason === MessageFailureReason.Throttled && breakers.throttled(row.destination, retryAfterMs)) {
      return undefined;
    }
    if (concernsOthers(reason)) {
      breakers.failed(row.destination, reason, { messageId: row.messageId });
    }
    return judge.failed(row, error, reason, retryable, retryAfterMs);
  }

  /** Settles what is owed and takes the next rows into hand, when there is room for them. */
  async #claim(): Promise<Claim> {
    const room = this.#hasRoom() ? this.#settings.batchSize : 0;
    const claim = await this.#stopping.during(() => this.#work.run(room));
    if (room > 0) {
      this.#more = claim.more;
      const few = claim.rows.length < this.#settings.batchSize / 10 && !claim.more;
      this.#claimsFrom = few ? claim.sentAtMs + paceMs : 0;
    }
    if (claim.rows.length > 0) {
      this.#settings.sleeper.foundWork();
      this.#leases.hold(claim.holder, claim.rows, claim.sentAtMs);
      this.#hand.add(this.#stopping.toTry(claim.rows.map((row) => ({ ...row, holder: claim.holder }))));
    }
    return claim;
  }

  async #settle(): Promise<void> {
    if (this.#work.owed.size > 0) {
      await this.#work.run(0);
    }
  }

  #release(rows: readonly HeldMessage[]): void {
    for (const row of rows) {
      this.#work.owed.add(row.holder, { released: [tryOf(row)] });
    }
  }

  #settled({ completed, failed, released }: Settlements, result: ClaimResult): void {
    this.#leases.drop([...completed, ...failed, ...released]);
    if (result.deadIds.length > 0) {
      this.#settings.onDeadLetter(result.deadIds);
    }
    if (result.staleIds.length > 0) {
      this.#settings.instruments.add('stale', result.staleIds.length, { category: 'outbox' });
      this.#settings.logger.warn(
        { messageIds: result.staleIds.slice(0, 10), count: result.staleIds.length },
        'Messages were settled after their lease had run out; another instance may have published them again',
      );
    }
  }

  async #waitForTransport(): Promise<void> {
    this.#release(this.#hand.clear());
    await this.#settle();
    // Nothing is claimed meanwhile. onReadyChange ends the wait; the bound covers a transport that forgets to tell.
    await this.#settings.sleeper.waitForRing(1_000);
  }

  async #finish(): Promise<void> {
    // At once: what was not handed over must not wait for the confirms of what was.
    this.#release(this.#hand.clear());
    await this.#settle();
    await Promise.all(this.#underWay);
    await this.#settle();
    await this.#settings.sleeper.close();
  }
}
