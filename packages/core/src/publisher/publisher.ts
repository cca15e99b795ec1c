import type { Logger } from '../contract/logger.js';
import { MessageFailureReason, failureReasonName } from '../contract/message-failure-reason.js';
import type { PublishOutcome, Transport } from '../contract/transport.js';
import type { ClaimResult, ClaimedMessage, FailedTry, Settlements } from '../contract/work.js';
import type { Breakers } from '../failure/breakers.js';
import { type FailureJudge, concernsOthers } from '../failure/failure-judge.js';
import type { OutboxStore } from '../outbox/outbox-store.js';
import { after, monotonicMs, pause, settlesWithin } from '../runtime/clock.js';
import type { InstanceIdentity } from '../runtime/instance-identity.js';
import { LeaseKeeper } from '../runtime/lease-keeper.js';
import { OutageLog } from '../runtime/outage-log.js';
import { type Claim, WorkExchange, nothingClaimed } from '../runtime/work-exchange.js';
import type { Instruments } from '../telemetry/instruments.js';
import type { Sleeper } from '../wakeups/sleeper.js';
import { type BatchOutcome, publishBatch, tryOf } from './publish-batch.js';
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

/** Rows in hand and the id under which they were claimed. */
type Hand = Pick<Claim, 'holder' | 'rows'>;

/**
 * Publishes the outbox: claim, hand to the transport, settle. While one batch is in the broker's hands, the batch before
 * it is settled and the one after it claimed, in one round trip.
 */
export class Publisher {
  readonly #settings: PublisherSettings;
  readonly #intake = new AbortController();
  /** Ends what is being sent: the time of `stop()` is up, or leases have run out. */
  #sending = new AbortController();
  readonly #leases: LeaseKeeper;
  readonly #work: WorkExchange;
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
    let hand: Hand = nothingClaimed;
    let more = false;
    while (!this.#intake.signal.aborted) {
      if (!this.#settings.transport.ready()) {
        await this.#waitForTransport(hand);
        hand = nothingClaimed;
        continue;
      }
      if (hand.rows.length === 0) {
        const next = await this.#claim();
        more = next.more;
        if (next.rows.length === 0) {
          if (this.#work.owed.size === 0) {
            await this.#work.rest(next);
          }
          continue;
        }
        hand = next;
        this.#settings.sleeper.foundWork();
        continue;
      }
      // A suspect is tried with nothing else in hand. Claiming ahead pays when there is more; otherwise the settlement waits for its batch and takes the claim along.
      const suspect = hand.rows.some((row) => row.suspect);
      if (suspect) {
        // What it may take along must not be what others have done.
        await this.#settle();
      }
      const ahead = more && !suspect ? this.#claim() : undefined;
      const current = hand;
      const outcome = await this.#publish(current);
      const next = await ahead;
      this.#work.owed.add(current.holder, outcome.settlements);
      hand = next === undefined ? nothingClaimed : this.#withoutStopped(next, outcome.stoppedStreams);
      more = next?.more ?? false;
      if (outcome.settlements.completed.length === 0 && outcome.settlements.failed.length === 0) {
        // Nothing moved: the broker takes nothing at the moment, and asking it again at once would not help.
        await pause(50, this.#intake.signal);
      }
    }
    await this.#finish(hand);
  }

  async #publish(hand: Hand): Promise<BatchOutcome> {
    const { transport, service, instruments, logger } = this.#settings;
    const begun = monotonicMs();
    const outcome = await publishBatch(
      hand.rows,
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

  /** Rows whose stream has just stopped are put down again, untried. */
  #withoutStopped(hand: Hand, stoppedStreams: ReadonlySet<string>): Hand {
    if (stoppedStreams.size === 0) {
      return hand;
    }
    const stopped = (row: ClaimedMessage) => row.streamId !== null && stoppedStreams.has(row.streamId);
    this.#work.owed.add(hand.holder, { released: hand.rows.filter(stopped).map(tryOf) });
    return { holder: hand.holder, rows: hand.rows.filter((row) => !stopped(row)) };
  }

  /** Settles what is owed and takes the next rows into hand. */
  async #claim(): Promise<Claim> {
    const claim = await this.#work.run(this.#settings.batchSize);
    this.#leases.hold(claim.holder, claim.rows, claim.sentAtMs);
    return { ...claim, rows: this.#withoutGivenUp(claim.holder, claim.rows) };
  }

  async #settle(): Promise<void> {
    if (this.#work.owed.size > 0) {
      await this.#work.run(0);
    }
  }

  /**
   * Rows past the cap, and rows that follow a dead letter of their stream, go to the dead letters untried. What follows one
   * past the cap in the same claim is put down until that is done.
   */
  #withoutGivenUp(holder: string, rows: readonly ClaimedMessage[]): readonly ClaimedMessage[] {
    const stopped = new Set<string>();
    return rows.filter((row) => {
      if (row.streamId !== null && stopped.has(row.streamId)) {
        this.#work.owed.add(holder, { released: [tryOf(row)] });
        return false;
      }
      const givenUp = this.#settings.judge.givenUp(row);
      if (givenUp === undefined) {
        return true;
      }
      this.#work.owed.add(holder, { failed: [givenUp] });
      if (row.streamId !== null && !row.parked && givenUp.policy !== 'continue') {
        stopped.add(row.streamId);
      }
      return false;
    });
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

  async #waitForTransport(hand: Hand): Promise<void> {
    this.#work.owed.add(hand.holder, { released: hand.rows.map(tryOf) });
    await this.#settle();
    // Nothing is claimed meanwhile. onReadyChange ends the wait; the bound covers a transport that forgets to tell.
    await this.#settings.sleeper.waitForRing(1_000);
  }

  async #finish(hand: Hand): Promise<void> {
    this.#work.owed.add(hand.holder, { released: hand.rows.map(tryOf) });
    await this.#settle();
    await this.#settings.sleeper.close();
  }
}
