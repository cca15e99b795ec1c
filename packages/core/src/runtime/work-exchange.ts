import {
  type ClaimRequest,
  type ClaimResult,
  type ClaimedMessage,
  type Settlements,
  nothingToSettle,
} from '../contract/work.js';
import type { Breakers } from '../failure/breakers.js';
import { monotonicMs, pause } from './clock.js';
import type { InstanceIdentity } from './instance-identity.js';
import type { OutageLog } from './outage-log.js';
import { OwedSettlements } from './owed-settlements.js';

export interface WorkExchangeSettings {
  /** One round trip and one commit: settles what a holder has done, and claims for it when the request has a limit. */
  readonly exchange: (holder: string, settlements: Settlements, claim: ClaimRequest) => Promise<ClaimResult>;
  readonly identity: InstanceIdentity;
  readonly breakers: Breakers;
  /** By what a row's breaker is known: its destination, or its message type. */
  readonly breakerKey: (row: ClaimedMessage) => string;
  readonly maxBytes: number;
  readonly leaseSeconds: number;
  readonly outage: OutageLog;
  /** Until something is due, `null` when nothing is known to be, or until somebody rings. */
  readonly sleep: (dueMs: number | null) => Promise<void>;
  /** Once it is aborted, nothing is claimed any more, and settling is not tried for ever. */
  readonly signal: AbortSignal;
  readonly onSettled: (settlements: Settlements, result: ClaimResult) => void;
}

/** Rows in hand, and what the look that brought them tells about the rest. */
export interface Claim {
  /** The id under which the rows were claimed: they are settled under it. */
  readonly holder: string;
  readonly rows: readonly ClaimedMessage[];
  /** As many rows were looked at as were asked for, whether or not they could be taken. */
  readonly full: boolean;
  /** There is more that could be taken. */
  readonly more: boolean;
  /** Milliseconds until something becomes due, `null` when nothing is known to. */
  readonly dueMs: number | null;
  /** When the claim was sent, by the monotonic clock: the leases began then or later. */
  readonly sentAtMs: number;
}

const nothingClaimed: Claim = { holder: '', rows: [], full: false, more: false, dueMs: null, sentAtMs: 0 };

// Pauses after looks that were full of rows of streams that others hold. Mostly these are through in a moment; when the pauses
// are used up, after 635 ms, the streams are moved out of the way of claims, which writes each row twice more.
const saturatedMs = [5, 10, 20, 40, 80, 160, 320];
const databaseRetryMs = [100, 200, 400, 800, 1_600, 3_200, 5_000];
// The leases of what cannot be settled by then run out by themselves.
const triesWhenStopping = 3;

/** What a worker has to do with its table: it owes settlements, and takes rows. Publisher and dispatcher have one each. */
export class WorkExchange {
  /** Settlements that go with the next exchange. */
  readonly owed = new OwedSettlements();
  readonly #settings: WorkExchangeSettings;
  #saturated = 0;

  constructor(settings: WorkExchangeSettings) {
    this.#settings = settings;
  }

  /**
   * Settles what is owed and claims up to `limit` rows; with 0 it settles only. While the database is away it keeps trying,
   * until the signal. A claim whose answer was lost gives this process another id, see {@link InstanceIdentity}.
   */
  async run(limit: number): Promise<Claim> {
    const { identity, outage, signal } = this.#settings;
    for (let failures = 0; ;) {
      const owed = this.owed.take() ?? { holder: identity.current, settlements: nothingToSettle };
      // Rows are settled under the id that claimed them, and claimed when nothing is owed any more under any.
      const claims = limit > 0 && owed.holder === identity.current && this.owed.size === 0 && !signal.aborted;
      const sentAtMs = monotonicMs();
      try {
        const result = await this.#exchange(owed.holder, owed.settlements, claims ? limit : 0);
        if (claims) {
          return this.#taken(owed.holder, result, limit, sentAtMs);
        }
        const stillToClaim = limit > 0 && !signal.aborted;
        if (!stillToClaim && this.owed.size === 0) {
          return nothingClaimed;
        }
      } catch (error) {
        this.owed.putBack(owed);
        outage.noticed(error);
        if (claims) {
          identity.renew();
        }
        failures += 1;
        if (signal.aborted && failures >= triesWhenStopping) {
          return nothingClaimed;
        }
        await pause(databaseRetryMs[Math.min(failures, databaseRetryMs.length) - 1] ?? 0, signal);
      }
    }
  }

  /** To be called when nothing was found to do. */
  async rest({ full, dueMs }: Pick<Claim, 'full' | 'dueMs'>): Promise<void> {
    const { sleep, outage, signal } = this.#settings;
    if (full) {
      // Not idle, and soon asked for with blockLeased.
      await pause(saturatedMs[this.#saturated - 1] ?? saturatedMs[0] ?? 0, signal);
      return;
    }
    try {
      await sleep(dueMs);
    } catch (error) {
      outage.noticed(error);
      await pause(500, signal);
    }
  }

  async #exchange(holder: string, settlements: Settlements, limit: number): Promise<ClaimResult> {
    const { exchange, breakers, maxBytes, leaseSeconds, outage, onSettled } = this.#settings;
    const result = await exchange(holder, settlements, {
      limit,
      maxBytes,
      leaseSeconds,
      blockLeased: this.#saturated > saturatedMs.length,
      closed: breakers.closed(),
    });
    outage.over();
    onSettled(settlements, result);
    return result;
  }

  #taken(holder: string, { claimed, candidates, dueMs }: ClaimResult, limit: number, sentAtMs: number): Claim {
    const { breakers, breakerKey } = this.#settings;
    const full = candidates >= limit;
    this.#saturated = full && claimed.length === 0 ? this.#saturated + 1 : 0;
    breakers.handedOut(claimed.map(breakerKey));
    const more = claimed.length > 0 && (full || candidates > claimed.length);
    return { holder, rows: claimed, full, more, dueMs, sentAtMs };
  }
}
